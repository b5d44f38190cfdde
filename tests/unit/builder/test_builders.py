"""What a builder refuses, and when: before anything runs."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Callable
from typing import Any

import pytest
from pyspark import cloudpickle

from tutorial_pkg import builder as builder_package
from tutorial_pkg.builder import (
    CursorSourceBuilder,
    OptionValues,
    ReplayableSourceBuilder,
    SinkBuilder,
    SourceBuilder,
    StreamSourceBuilder,
    boolean,
    choice,
    integer,
    names,
)

LOCK = threading.Lock()


def stream(**functions: Callable[..., Any]) -> Any:
    builder = SourceBuilder.stream("numbers", "number LONG", create=lambda context: None)
    for name, function in functions.items():
        getattr(builder, name)(function)
    return builder


def nothing(state: Any, *arguments: Any) -> None:
    pass


class Locked:
    """An object that cannot travel, with a method that may."""

    def __init__(self) -> None:
        self.lock = threading.Lock()

    def fill(self, state: Any, buffer: Any) -> None:
        pass


class Base:
    """A class that may travel."""


def closed_over() -> tuple[str, Any, str]:
    client = socket.socket()
    client.close()
    return "client", lambda state, buffer: client, "socket"


def in_a_global() -> tuple[str, Any, str]:
    return "LOCK", lambda state, buffer: [LOCK for _ in ()], "lock"


def in_the_method_s_object() -> tuple[str, Any, str]:
    return "lock", Locked().fill, "lock"


def in_a_function_of_a_function() -> tuple[str, Any, str]:
    lock = threading.Lock()

    def inner() -> Any:
        return lock

    return "lock", lambda state, buffer: inner(), "lock"


def in_a_class_with_super() -> tuple[str, Any, str]:
    """Its methods lead back to it, the first one to nothing else."""

    class Counter(Base):
        def __repr__(self) -> str:
            return super().__repr__()

        def __init__(self, state: Any, buffer: Any) -> None:
            super().__init__()
            self.lock = LOCK

    return "LOCK", Counter, "lock"


def in_functions_that_call_each_other() -> tuple[str, Any, str]:
    def even(state: Any, buffer: Any) -> Any:
        return odd(state, buffer)

    def odd(state: Any, buffer: Any) -> Any:
        return even(state, buffer) or LOCK

    return "LOCK", even, "lock"


@pytest.mark.parametrize(
    "make",
    [
        closed_over,
        in_a_global,
        in_the_method_s_object,
        in_a_function_of_a_function,
        in_a_class_with_super,
        in_functions_that_call_each_other,
    ],
)
def test_what_cannot_travel_is_named(make: Callable[[], tuple[str, Any, str]]) -> None:
    name, function, kind = make()
    text = (
        f"format `numbers`: `fill` cannot travel to Spark's processes, because it captures "
        f"`{name}`, a {kind} (cannot pickle"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(text)}.*Make such things in `create`"):
        stream(fill=function).build()


def test_a_built_source_travels_whole() -> None:
    source = stream(fill=nothing, destroy=nothing).option("step", integer(1), 1, "how far").build()
    copy = cloudpickle.loads(cloudpickle.dumps(source))
    assert copy.name() == "numbers"
    assert copy({"path": "log", "step": "2"}).schema() == "number LONG"


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: stream(), "format `numbers`: the function `fill` is missing"),
        (lambda: stream(fill=nothing, snapshot=nothing), "the function `restore` is missing"),
        (lambda: stream(fill=nothing, restore=nothing), "the function `snapshot` is missing"),
        (lambda: stream(fill=nothing).heartbeat(1), "`heartbeat` needs to know the time's column"),
        (lambda: stream(fill=nothing).option("Path", str, "", ""), "option `Path` is there alr"),
        (lambda: SinkBuilder.stream("out", nothing), "`receive` and `receive_batch`, got none"),
        (
            lambda: SinkBuilder.stream("out", nothing).receive(nothing).commit(nothing),
            "format `out`: the function `flush` is missing",
        ),
    ],
)
def test_what_is_missing_is_named(make: Callable[[], Any], text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(text)):
        make().build()


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: stream(fill=3), "`fill` must be a function of (state, buffer), got 3"),
        (lambda: stream(fill=lambda state: None), "`fill` must be a function of (state, buffer): "),
        (lambda: stream(fill=nothing).distributed(0), "`distributed` takes 1..64, got 0"),
        (
            lambda: stream(fill=nothing).option("step", integer, 1, "how far"),
            "option step: say what it takes: `integer(0)`",
        ),
        (
            lambda: stream(fill=nothing).option("all", bool, False, "also old ones"),
            "option all: say what it takes: `boolean`",
        ),
        (
            lambda: stream(fill=nothing).option("tables", tuple, (), "which ones"),
            "option tables: say what it takes: `names`",
        ),
        *(
            (lambda default=default: stream().option("o", default[0], default[1], "it"), text)
            for default, text in (
                ((boolean, "false"), "option o: the default 'false' is not parsed: say False"),
                ((names, "a,b"), "option o: the default 'a,b' is not parsed: say ('a', 'b')"),
                ((choice("all", "new"), "al"), "option o: the default 'al' must be all or new"),
            )
        ),
        (
            lambda: SinkBuilder.stream("Memory", nothing),
            "`Memory` is the name of a sink of Spark's own",
        ),
        (lambda: stream(fill=nothing).heartbeat(0), "`heartbeat` takes seconds, more than 0, got"),
        (
            lambda: SourceBuilder.stream("a b", "number LONG", nothing),
            "the name of a format is letters, digits and `_`, and starts with a letter, got 'a b'",
        ),
    ],
)
def test_what_is_wrong_is_named_at_once(make: Callable[[], Any], text: str) -> None:
    with pytest.raises((TypeError, ValueError), match=re.escape(text)):
        make()


def test_an_option_that_is_read_and_not_declared() -> None:
    options = OptionValues(step=2)
    assert options["step"] == options.step == 2
    with pytest.raises(AttributeError, match=r"^no option `speed` is declared: add `.option\('sp"):
        options.speed  # noqa: B018
    assert cloudpickle.loads(cloudpickle.dumps(options)) == options


def test_the_help_leads_to_all_that_can_follow() -> None:
    text = " ".join(str(SourceBuilder.__doc__).split())
    methods = [
        name
        for follows in (StreamSourceBuilder, CursorSourceBuilder, ReplayableSourceBuilder)
        for name in dir(follows)
        if not name.startswith("_")
    ]
    assert [name for name in methods if f"`.{name}" not in text] == []
    parsers = ("integer", "boolean", "choice", "not_empty", "local_directory", "secret", "REQUIRED")
    assert [name for name in parsers if f"`{name}`" not in text] == []
    named = set(re.findall(r"tutorial_pkg\.builder\.(\w+)", text))
    assert {*parsers, *named} <= set(builder_package.__all__)


def test_options_are_checked_and_documented_as_everywhere() -> None:
    source = (
        stream(fill=nothing)
        .option("from", integer(0), 0, "where to begin")
        .option("kind", choice("odd", "even"), "odd", "which numbers")
        .option("rate", float, 1.0, "how fast", allowed="a number")
        .build()
    )
    for given, text in (
        ({"from": "-1"}, "format `numbers`: option `from` must be 0 or more, got '-1'"),
        ({"kind": "x"}, "format `numbers`: option `kind` must be odd or even, got 'x'"),
        ({"rate": "x"}, "format `numbers`: option `rate` must be a number, got 'x'"),
        ({"form": "1"}, "format `numbers`: unknown option `form`; did you mean `from`?"),
    ):
        with pytest.raises(ValueError, match=f"^{re.escape(text)}"):
            source({"path": "log", **given}).schema()
    assert "    from (0 or more; default 0): where to begin" in source.__doc__
    assert "Guarantee: exactly once from the log on." in source.__doc__
