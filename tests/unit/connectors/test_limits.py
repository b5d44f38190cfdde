"""Each limit says what it counts."""

from __future__ import annotations

import re
from typing import Any

import pytest

import tutorial_pkg
from tutorial_pkg.builder import SourceBuilder


def nothing(*_: Any) -> None:
    """Never called."""


FORMATS = [getattr(tutorial_pkg, name) for name in dir(tutorial_pkg) if name.endswith("DataSource")]
REPLAYABLE = SourceBuilder.replayable("replayable", "n LONG", nothing, nothing)
BUILT = [
    SourceBuilder.stream("stream", "n LONG", nothing).fill(nothing).build(),
    SourceBuilder.cursor("cursor", "n LONG", nothing).build(),
    SourceBuilder.cursor("pages", "n LONG", nothing).replayable().build(),
    REPLAYABLE.build(),
    REPLAYABLE.bound(nothing).build(),
]
LIMITS = [
    (each.name(), *found)
    for each in [*FORMATS, *BUILT]
    for found in re.findall(r"^ +(max\w+PerTrigger) \((.*?)\): (.*)$", each.__doc__ or "", re.M)
]


def test_there_are_limits() -> None:
    """All sources that are streams have one."""
    told = {name for name, *_ in LIMITS}
    assert told >= {each.name() for each in BUILT}
    assert told >= {"file_lines", "network_lines", "kafka_py", "nats", "objects", "postgres"}


@pytest.mark.parametrize(("name", "option", "takes", "meaning"), LIMITS)
def test_a_limit_says_what_it_counts(name: str, option: str, takes: str, meaning: str) -> None:
    counted = "bytes" if "Bytes" in option else "rows|lines"
    assert re.search(rf"\b({counted})\b", f"{takes} {meaning}"), (name, option)
