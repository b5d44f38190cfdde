"""A builder's early errors, its help and its documentation."""

from __future__ import annotations

import re
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
    choice,
    integer,
)


def nothing(state: Any, *arguments: Any) -> None:
    pass


def stream(**functions: Callable[..., Any]) -> Any:
    builder = SourceBuilder.stream("numbers", "number LONG", create=lambda context: None)
    for name, function in functions.items():
        getattr(builder, name)(function)
    return builder


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: stream(), "format `numbers`: the function `fill` is missing"),
        (lambda: stream(fill=nothing, snapshot=nothing), "the function `restore` is missing"),
        (lambda: stream(fill=nothing, restore=nothing), "the function `snapshot` is missing"),
        (lambda: stream(fill=nothing).heartbeat(1), "`heartbeat` needs"),
        (lambda: stream(fill=nothing).option("Path", str, "", ""), "option `Path` exists already"),
        (
            lambda: SourceBuilder.cursor("f", "n LONG", nothing).distributed(2).replayable(),
            "`distributed` is for pages that go through the log",
        ),
        (lambda: SinkBuilder.stream("out", nothing), "`receive` and `receive_batch`, got none"),
        (
            lambda: SinkBuilder.stream("out", nothing).receive(nothing).commit(nothing),
            "format `out`: the function `flush` is missing",
        ),
    ],
)
def test_missing_functions_are_named(make: Callable[[], Any], text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(text)):
        make().build()


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: stream().distributed(0), "`distributed` takes 1..64, got 0"),
        (lambda: stream().option("step", integer, 1, ""), "option step: `integer` does not parse"),
        (
            lambda: stream().option("all", bool, False, ""),
            "option all: `bool` does not parse; use `",
        ),
        (lambda: SinkBuilder.stream("Memory", nothing), "`Memory`"),
        (lambda: stream().heartbeat(0), "`heartbeat` takes seconds, more than 0, got"),
        (lambda: SourceBuilder.stream("a b", "number LONG", nothing), "got 'a b'"),
    ],
)
def test_wrong_settings_are_refused_at_once(make: Callable[[], Any], text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(text)):
        make()


def test_undeclared_option_is_an_error() -> None:
    options = OptionValues(step=2)
    assert options["step"] == options.step == 2
    with pytest.raises(AttributeError, match="speed"):
        options.speed  # noqa: B018
    assert cloudpickle.loads(cloudpickle.dumps(options)) == options


def test_help_names_all_that_can_follow() -> None:
    text = " ".join(str(SourceBuilder.__doc__).split())
    methods = [
        name
        for builder in (StreamSourceBuilder, CursorSourceBuilder, ReplayableSourceBuilder)
        for name in dir(builder)
        if not name.startswith("_")
    ]
    assert [name for name in methods if f"`.{name}" not in text] == []
    named = set(re.findall(r"tutorial_pkg\.builder\.(\w+)", text))
    assert named <= set(builder_package.__all__)


def test_options_are_checked_and_documented() -> None:
    source = (
        stream(fill=nothing)
        .option("from", integer(0), 0, "where to begin")
        .option("kind", choice("odd", "even"), "odd", "which numbers")
        .option("rate", float, 1.0, "how fast", allowed="a number")
        .build()
    )
    for given, text in (
        ({"from": "-1"}, "option `from` must be 0 or more, got '-1'"),
        ({"kind": "x"}, "option `kind` must be odd or even, got 'x'"),
        ({"rate": "x"}, "option `rate` must be a number, got 'x'"),
        ({"form": "1"}, "unknown option `form`; did you mean `from`?"),
    ):
        with pytest.raises(ValueError, match=re.escape(text)):
            source({"path": "log", **given}).schema()
    assert "    from (0 or more; default 0): where to begin" in source.__doc__
