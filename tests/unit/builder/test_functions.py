"""What may be given to a builder as a function, how it is called, and whether it pickles."""

from __future__ import annotations

import concurrent.futures
import re
import socket
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from itertools import chain
from typing import Any

import pytest
from pyspark import cloudpickle

from tutorial_pkg.builder import SinkBuilder, SourceBuilder, integer
from tutorial_pkg.builder.functions import FunctionError, Functions

LOCK = threading.Lock()


def nothing(*arguments: Any) -> Any:
    """Fits everywhere."""


async def coroutine(*arguments: Any) -> None: ...


async def async_generator(*arguments: Any) -> Any:
    yield 1


def generator(*arguments: Any) -> Iterator[int]:
    yield 1


class Forms:
    def __init__(self, *arguments: Any) -> None:
        self.lock = LOCK

    def __call__(self, *arguments: Any) -> Any: ...

    def method(self, *arguments: Any) -> Any: ...


GIVEN: dict[str, Callable[[Any], Any]] = {
    "create": lambda f: SourceBuilder.stream("f", "n LONG", f),
    "schema": lambda f: SourceBuilder.stream("f", f, nothing),
    "fill": lambda f: SourceBuilder.stream("f", "n LONG", nothing).fill(f),
    "look": lambda f: SourceBuilder.replayable("f", "n LONG", look=f, read=nothing),
    "read of a page": lambda f: SourceBuilder.cursor("f", "n LONG", f),
    "flush": lambda f: SinkBuilder.stream("f", nothing).flush(f),
    "option": lambda f: SinkBuilder.stream("f", nothing).option("o", f, 1, "an option"),
    "transient": lambda f: SinkBuilder.stream("f", nothing).retry(transient=f),
}


@pytest.mark.parametrize("name", GIVEN)
def test_function_must_fit_and_run_when_called(name: str) -> None:
    for form in (nothing, lambda *_: None, partial(nothing, 1), Forms().method, Forms(), print):
        GIVEN[name](form)
    for form in (coroutine, async_generator, partial(coroutine, 1)):
        with pytest.raises(TypeError, match="` must not be `async`"):
            GIVEN[name](form)
    with pytest.raises(TypeError, match="` must not `yield`"):
        GIVEN[name](generator)
    for form in (lambda: None, *([3] if name != "schema" else [])):
        with pytest.raises(TypeError, match="` must be a function of "):
            GIVEN[name](form)


def test_rows_and_splits_may_be_yielded() -> None:
    SourceBuilder.replayable("f", "n LONG", look=nothing, read=generator)
    SourceBuilder.cursor("f", "n LONG", nothing).splits(generator)  # type: ignore[arg-type]


@pytest.mark.filterwarnings("ignore:coroutine 'coroutine' was never awaited")
@pytest.mark.parametrize(
    ("name", "function", "text"),
    [
        ("flush", coroutine, "TypeError: it returned a coroutine, which does nothing"),
        ("fill", generator, "TypeError: it returned a generator, which does nothing"),
        ("fill", lambda: map(print, "ab"), "TypeError: it returned a map, which does nothing"),
        ("flush", lambda: chain("a"), "TypeError: it returned a chain, which does nothing"),
        ("flush", concurrent.futures.Future, "TypeError: it returned a Future; wait for its"),
        ("fill", lambda: exit(3), "SystemExit: 3"),
    ],
)
def test_work_that_has_not_run_is_an_error(name: str, function: Any, text: str) -> None:
    text = re.escape(f"format `format`: `{name}` of me failed: {text}")
    with pytest.raises(FunctionError, match=text):
        Functions("format", {name: function}).call(name, "me")


def test_state_cursor_and_pending_receive_are_returned() -> None:
    with closing(sqlite3.connect(":memory:")) as database:
        results: dict[str, Any] = {
            "create": generator(),
            "receive": concurrent.futures.Future(),
            "fill": database.execute("SELECT 1"),
        }
        for name, result in results.items():
            assert Functions("f", {name: lambda result=result: result}).call(name, "me") is result


def test_error_with_a_name_that_is_not_utf_8() -> None:
    """Spark's worker writes UTF-8: the error's text, and that of its cause."""

    def read(name: str) -> None:
        raise FileNotFoundError(name)

    for name, text in (("caf\udce9", "caf\\udce9"), ("café", "café")):
        with pytest.raises(FunctionError, match=re.escape(text)) as error:
            Functions("format", {"read": read}).call("read", "me", name)
        assert isinstance(error.value.__cause__, FileNotFoundError) == (name == text)


# ---- Pickling ------------------------------------------------------------------------------------


def in_a_closure() -> tuple[str, Any]:
    client = socket.socket()
    client.close()
    return "captures `client`, a socket", lambda state, buffer: client


def in_a_global() -> tuple[str, Any]:
    return "captures `LOCK`, a lock", lambda state, buffer: LOCK


def in_a_method() -> tuple[str, Any]:
    return "captures `lock`, a lock", partial(Forms().method)


def deeper() -> tuple[str, Any]:
    return "cannot be pickled", lambda state, buffer: (lambda: LOCK)()


@pytest.mark.parametrize("make", [in_a_closure, in_a_global, in_a_method, deeper])
def test_function_that_cannot_be_pickled_is_named(make: Callable[[], tuple[str, Any]]) -> None:
    what, function = make()
    builder = SourceBuilder.stream("numbers", "n LONG", nothing).fill(function)
    text = f"format `numbers`: `fill` cannot travel .*{re.escape(what)} \\(cannot pickle.*`create`"
    with pytest.raises(ValueError, match=text):
        builder.build()
    pages = SourceBuilder.replayable("f", "n LONG", look=lambda context: LOCK, read=nothing)  # type: ignore[arg-type, return-value]
    with pytest.raises(ValueError, match=r"in `.connect`, .* in `context.connection`"):
        pages.build()


def test_built_source_can_be_pickled() -> None:
    builder = SourceBuilder.stream("numbers", lambda options: "number LONG", nothing).fill(nothing)
    source = builder.option("step", integer(1), 1, "how far").build()
    copy = cloudpickle.loads(cloudpickle.dumps(source))
    assert copy.name() == "numbers"
    assert copy({"path": "log", "step": "2"}).schema() == "number LONG"
