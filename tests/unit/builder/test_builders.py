"""A builder's early errors, its options and its documentation."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from tutorial_pkg.builder import SinkBuilder, SourceBuilder, integer


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
