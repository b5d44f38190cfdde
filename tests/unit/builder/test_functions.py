"""What may be given as a function: each of each builder, in each form that Python knows."""

from __future__ import annotations

import asyncio
import concurrent.futures
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import partial
from itertools import chain
from typing import Any

import pytest

from tutorial_pkg.builder import SinkBuilder, SourceBuilder
from tutorial_pkg.builder.functions import FunctionError, Functions

Build = Callable[[Any], Any]


def nothing(*arguments: Any) -> Any:
    """Fits everywhere."""


def stream(name: str) -> Build:
    builder = SourceBuilder.stream("format", "n LONG", nothing)
    return getattr(builder, name)  # type: ignore[no-any-return]


def replayable(name: str) -> Build:
    return getattr(SourceBuilder.replayable("f", "n LONG", nothing, nothing, nothing), name)  # type: ignore[no-any-return]


def cursor(name: str) -> Build:
    return getattr(SourceBuilder.cursor("f", "n LONG", nothing), name)  # type: ignore[no-any-return]


def sink(name: str) -> Build:
    return getattr(SinkBuilder.stream("f", nothing), name)  # type: ignore[no-any-return]


# How each is given, by the builder and its name.
GIVEN: dict[tuple[str, str], Build] = {
    ("stream", "create"): lambda f: SourceBuilder.stream("f", "n LONG", f),
    **{
        ("stream", name): stream(name)
        for name in ("fill", "snapshot", "restore", "acknowledge", "destroy")
    },
    ("stream", "schema"): lambda f: SourceBuilder.stream("f", f, nothing),
    ("batch", "create"): lambda f: SourceBuilder.batch("f", "n LONG", f),
    ("batch", "fill"): lambda f: SourceBuilder.batch("f", "n LONG", nothing).fill(f),
    ("batch", "destroy"): lambda f: SourceBuilder.batch("f", "n LONG", nothing).destroy(f),
    ("replayable", "splits"): lambda f: SourceBuilder.replayable("f", "n LONG", f, *[nothing] * 2),
    ("replayable", "latest"): lambda f: SourceBuilder.replayable(
        "f", "n LONG", nothing, f, nothing
    ),
    ("replayable", "read"): lambda f: SourceBuilder.replayable("f", "n LONG", *[nothing] * 2, f),
    **{("replayable", name): replayable(name) for name in ("connect", "close", "bound", "commit")},
    ("cursor", "read"): lambda f: SourceBuilder.cursor("f", "n LONG", f),
    **{("cursor", name): cursor(name) for name in ("splits", "connect", "close")},
    ("sink", "create"): lambda f: SinkBuilder.stream("f", f),
    **{
        ("sink", name): sink(name)
        for name in ("check", "receive", "receive_batch", "flush", "destroy", "commit", "abort")
    },
    ("every", "option"): lambda f: SinkBuilder.stream("f", nothing).option("o", f, 1, "an option"),
}
MAY_YIELD = {("replayable", "splits"), ("replayable", "read"), ("cursor", "splits")}


async def coroutine(*arguments: Any) -> None: ...


async def async_generator(*arguments: Any) -> Any:
    yield 1


def generator(*arguments: Any) -> Any:
    yield 1


class Forms:
    """Methods, and objects that can be called."""

    def method(self, *arguments: Any) -> Any:
        """Bound."""

    async def async_method(self, *arguments: Any) -> Any: ...

    def generator_method(self, *arguments: Any) -> Any:
        yield 1


class Called:
    def __init__(self, *arguments: Any) -> None:
        """A class makes what it is called for."""

    def __call__(self, *arguments: Any) -> Any:
        """Does its work."""


class CalledAsync:
    async def __call__(self, *arguments: Any) -> Any: ...


class CalledGenerator:
    def __call__(self, *arguments: Any) -> Any:
        yield 1


def test_the_table_has_every_function_of_every_builder() -> None:
    """Whoever adds one adds it here."""
    others = {"distributed", "heartbeat", "timestamps", "limit", "replayable", "retry", "build"}
    others |= {"option", "options", "stream", "also_batch", "also_overwrite"}
    for name, of in (("stream", stream), ("replayable", replayable), ("cursor", cursor)):
        methods = {each for each in dir(of("build").__self__) if each[0] != "_"}  # type: ignore[attr-defined]
        assert methods - others <= {function for builder, function in GIVEN if builder == name}
    methods = {each for each in dir(SinkBuilder) if each[0] != "_"}
    assert methods - others == {function for builder, function in GIVEN if builder == "sink"} - {
        "create"
    }


@pytest.mark.parametrize("given", GIVEN.values(), ids=map(".".join, GIVEN))
@pytest.mark.parametrize(
    "form",
    [nothing, lambda *_: None, partial(nothing, 1), Forms().method, Called(), Called, print],
)
def test_whatever_can_be_called_will_do(given: Build, form: Any) -> None:
    given(form)


@pytest.mark.parametrize("given", GIVEN, ids=map(".".join, GIVEN))
@pytest.mark.parametrize(
    "form",
    [
        *(coroutine, async_generator, partial(coroutine, 1), partial(partial(coroutine))),
        *(Forms().async_method, CalledAsync()),
    ],
)
def test_what_nobody_would_await_is_refused(given: tuple[str, str], form: Any) -> None:
    with pytest.raises(TypeError, match="` must not be `async`: nobody would await it; call `asyn"):
        GIVEN[given](form)


@pytest.mark.parametrize("given", GIVEN, ids=map(".".join, GIVEN))
@pytest.mark.parametrize(
    "form", [generator, partial(generator, 1), Forms().generator_method, CalledGenerator()]
)
def test_only_rows_and_splits_may_be_yielded(given: tuple[str, str], form: Any) -> None:
    if given in MAY_YIELD:
        GIVEN[given](form)
    else:
        with pytest.raises(TypeError, match="` must not `yield`: nobody would run it; do the work"):
            GIVEN[given](form)


@pytest.mark.filterwarnings("ignore:coroutine 'coroutine' was never awaited")
@pytest.mark.parametrize(
    ("name", "function", "text"),
    [
        *(
            (name, lambda: ValueError("no"), f"TypeError: `{name}` returned a ValueError: raise it")
            for name in ("create", "fill", "acknowledge", "receive", "commit", "check")
        ),
        ("flush", lambda: coroutine(), "TypeError: it returned a coroutine: nobody would await"),
        (
            "fill",
            lambda: generator(),
            "TypeError: it returned a generator: nobody would run it",
        ),
        ("commit", lambda: async_generator(), "TypeError: it returned a async_generator: nobody"),
        ("fill", lambda: map(print, "ab"), "TypeError: it returned a map: nobody would run it"),
        ("flush", lambda: chain("a"), "TypeError: it returned a chain: nobody would run it"),
        ("receive", lambda: future(), "TypeError: it returned a Future: nobody would"),
        *(
            (
                name,
                lambda: concurrent.futures.Future(),
                "TypeError: it returned a Future: nobody wo",
            )
            for name in ("fill", "restore", "acknowledge", "flush", "commit", "abort", "destroy")
        ),
        ("fill", lambda: asyncio.run(cancelled()), "`fill` of me failed: CancelledError"),
        ("fill", lambda: exit(3), "`fill` of me failed: SystemExit: 3"),
    ],
)
def test_what_only_a_call_shows_is_an_error(
    name: str, function: Callable[[], Any], text: str
) -> None:
    """Also an error that is no `Exception`: nothing may end without a word."""
    with pytest.raises(FunctionError, match=re.escape(text)):
        Functions("format", {name: function}).call(name, "me")


def test_a_name_that_is_not_utf_8_can_be_told() -> None:
    """Spark's worker writes UTF-8: the error's text, and that of its cause."""

    def read(name: str) -> None:
        raise FileNotFoundError(name)

    for name, told in (("caf\udce9", "caf\\udce9"), ("café", "café")):
        with pytest.raises(FunctionError) as found:
            Functions("format", {"read": read}).call("read", "me", name)
        assert (
            str(found.value) == f"format `format`: `read` of me failed: FileNotFoundError: {told}"
        )
        assert isinstance(found.value.__cause__, FileNotFoundError) == (name == told)
        assert found.value.__suppress_context__


def future() -> asyncio.Future[None]:
    with closing(asyncio.new_event_loop()) as loop:
        return loop.create_future()


async def cancelled() -> None:
    raise asyncio.CancelledError


def test_what_a_database_returns_has_run() -> None:
    """A cursor is an iterator, too."""
    with closing(sqlite3.connect(":memory:")) as database:
        returned = Functions("format", {"receive": database.execute}).call(
            "receive", "me", "SELECT 1"
        )
        assert list(returned) == [(1,)]


def test_who_receives_may_begin_work_that_flush_waits_for() -> None:
    begun = concurrent.futures.Future[None]()
    functions = Functions("format", {"receive": lambda: begun, "create": lambda: begun})
    assert functions.call("receive", "me") is begun
    assert functions.call("create", "me") is begun


def test_a_state_may_be_a_generator() -> None:
    state = Functions("format", {"create": lambda: generator()}).call("create", "me")
    assert next(state) == 1
