"""A builder's early errors, its options and its documentation."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from tutorial_pkg.builder import (
    SinkBuilder,
    SourceBuilder,
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
    ("make", "named"),
    [
        (lambda: stream(), "`fill`"),
        (lambda: stream(fill=nothing, snapshot=nothing), "`restore`"),
        (lambda: stream(fill=nothing, restore=nothing), "`snapshot`"),
        (lambda: stream(fill=nothing).heartbeat(1), "`.timestamps"),
        (lambda: stream(fill=nothing).heartbeat(0), "`heartbeat`"),
        (lambda: stream(fill=nothing).distributed(0), "`distributed`"),
        (lambda: stream(fill=nothing).option("Path", str, "", ""), "`Path`"),
        (lambda: stream(fill=nothing).option("step", integer, 1, ""), "option step"),
        (lambda: stream(fill=nothing).option("all", bool, False, ""), "`boolean`"),
        (
            lambda: SourceBuilder.cursor("f", "n LONG", nothing).distributed(2).replayable(),
            "`distributed`",
        ),
        (lambda: SinkBuilder.stream("out", nothing), "`receive`"),
        (lambda: SinkBuilder.stream("out", nothing).receive(nothing).commit(nothing), "`flush`"),
    ],
)
def test_incomplete_builder_is_refused(make: Callable[[], Any], named: str) -> None:
    with pytest.raises(ValueError, match=re.escape(named)):
        make().build()


def test_options_are_checked_and_documented() -> None:
    source = (
        stream(fill=nothing)
        .option("from", integer(0), 0, "where to begin")
        .option("kind", choice("odd", "even"), "odd", "which numbers")
        .option("rate", float, 1.0, "how fast", allowed="a number")
        .build()
    )
    for options, text in (
        ({"from": "-1"}, "option `from` must be 0 or more, got '-1'"),
        ({"kind": "x"}, "option `kind` must be odd or even, got 'x'"),
        ({"rate": "x"}, "option `rate` must be a number, got 'x'"),
        ({"form": "1"}, "unknown option `form`; did you mean `from`?"),
    ):
        with pytest.raises(ValueError, match=re.escape(text)):
            source({"path": "log", **options}).schema()
    assert "    from (0 or more; default 0): where to begin" in source.__doc__
