"""What may be given to a builder as a function, and whether it can be pickled."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from tutorial_pkg.builder import SinkBuilder, SourceBuilder

LOCK = threading.Lock()


def nothing(*arguments: Any) -> Any:
    """Fits everywhere."""


async def coroutine(*arguments: Any) -> None: ...


def generator(*arguments: Any) -> Iterator[int]:
    yield 1


class Forms:
    def __call__(self, *arguments: Any) -> Any: ...

    def method(self, *arguments: Any) -> Any: ...


SETTERS: dict[str, Callable[[Any], Any]] = {
    "create": lambda f: SourceBuilder.stream("f", "n LONG", f),
    "fill": lambda f: SourceBuilder.stream("f", "n LONG", nothing).fill(f),
    "look": lambda f: SourceBuilder.replayable("f", "n LONG", look=f, read=nothing),
    "read of a page": lambda f: SourceBuilder.cursor("f", "n LONG", f),
    "flush": lambda f: SinkBuilder.stream("f", nothing).flush(f),
    "listen": lambda f: SourceBuilder.pushed("f", "n LONG", f),
    "option": lambda f: SinkBuilder.stream("f", nothing).option("o", f, 1, "an option"),
}


@pytest.mark.parametrize("name", SETTERS)
def test_function_must_fit_and_run_when_called(name: str) -> None:
    for form in (nothing, lambda *_: None, partial(nothing, 1), Forms().method, Forms(), print):
        SETTERS[name](form)
    for form in (coroutine, partial(coroutine, 1), generator, lambda: None, 3):
        with pytest.raises(TypeError):
            SETTERS[name](form)


def in_a_closure() -> tuple[str, Any]:
    client = socket.socket()
    client.close()
    return "it captures `client`, a socket", lambda state, buffer: client


def in_a_global() -> tuple[str, Any]:
    return "it captures `LOCK`, a lock", lambda state, buffer: LOCK


def deeper() -> tuple[str, Any]:
    return "it cannot be pickled", lambda state, buffer: (lambda: LOCK)()


@pytest.mark.parametrize("make", [in_a_closure, in_a_global, deeper])
def test_function_that_cannot_be_pickled_is_named(make: Callable[[], tuple[str, Any]]) -> None:
    reason, function = make()
    builder = SourceBuilder.stream("numbers", "n LONG", nothing).fill(function)
    with pytest.raises(ValueError, match=f"`fill` .*{re.escape(reason)}"):
        builder.build()
