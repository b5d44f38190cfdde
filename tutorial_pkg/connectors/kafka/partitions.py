"""Which partitions a query reads, and from where: the options of Spark's Kafka source."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tutorial_pkg.core.options import OptionValues, not_empty, taking

EARLIEST, LATEST = "earliest", "latest"
_WORDS = {-2: EARLIEST, -1: LATEST}

Numbers = dict[str, list[int]]  # by topic, its partitions
Places = str | dict[str, dict[int, int | str]]  # a word, or by topic and partition an offset


@dataclass(frozen=True, order=True)
class Partition:
    """A topic's partition; `id` is the topic's, which another topic of that name has not.

    As a text, `orders-0@id`, it is a split's name in the checkpoint.
    """

    topic: str
    number: int
    id: str

    def __str__(self) -> str:
        return f"{self.name}@{self.id}"

    @property
    def name(self) -> str:
        """What people and Kafka's own tools call it."""
        return f"{self.topic}-{self.number}"

    @classmethod
    def parse(cls, text: str) -> Partition:
        name, _, topic_id = text.partition("@")
        topic, _, number = name.rpartition("-")
        return cls(topic, int(number), topic_id)


# ---- Options -------------------------------------------------------------------------------------


@taking("names with commas between them")
def names(text: str) -> list[str]:
    """A parser for topics: `orders, returns`."""
    return [not_empty(name).strip() for name in text.split(",")]


@taking("a regular expression")
def pattern(text: str) -> str:
    """A parser for a regular expression that all of a topic's name must match."""
    try:
        re.compile(not_empty(text))
    except re.error:
        raise ValueError from None
    return text


@taking('JSON such as {"orders": [0, 1]}')
def assignment(text: str) -> Numbers:
    """A parser for partitions by topic."""
    read = json.loads(text)
    if not isinstance(read, dict) or not all(map(_are_numbers, read.values())) or not read:
        raise ValueError
    return read


def _are_numbers(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(type(each) is int for each in value)


@taking('earliest, latest, or JSON such as {"orders": {"0": 23, "1": -2}}; -2 earliest, -1 latest')
def starting(text: str) -> Places:
    """A parser for `startingOffsets`."""
    return text.lower() if text.lower() in (EARLIEST, LATEST) else _places(text)


@taking('latest, or JSON such as {"orders": {"0": 23, "1": -1}}; -1 latest')
def ending(text: str) -> Places:
    """A parser for `endingOffsets`."""
    places = LATEST if text.lower() == LATEST else _places(text)
    if isinstance(places, dict) and any(EARLIEST in each.values() for each in places.values()):
        raise ValueError
    return places


def _places(text: str) -> Places:
    read = json.loads(text)
    if not isinstance(read, dict) or not all(isinstance(each, dict) for each in read.values()):
        raise ValueError
    return {topic: _offsets(offsets) for topic, offsets in read.items()}


def _offsets(read: Mapping[str, Any]) -> dict[int, int | str]:
    if not all(type(offset) is int and offset >= -2 for offset in read.values()):
        raise ValueError
    return {int(number): _WORDS.get(offset, offset) for number, offset in read.items()}


def check_wanted(options: OptionValues) -> None:
    """Raise `ValueError` unless just one of the three options says what to read."""
    given = [
        name for name in ("assign", "subscribe", "subscribePattern") if options[name] is not None
    ]
    if len(given) != 1:
        raise ValueError(
            "format `kafka_py`: give one of the options `assign`, `subscribe` and "
            f"`subscribePattern`, got {' and '.join(given) or 'none'}"
        )


# ---- Places --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Range:
    """What a partition holds: from the offset `first` up to, but without, `end`."""

    first: int
    end: int


def offset_at(place: Places, partition: Partition, found: Range, option: str) -> int:
    """The offset that `place` means in this partition.

    Raises `ValueError` when the option does not name the partition.
    """
    if isinstance(place, dict):
        offsets = place.get(partition.topic, {})
        if partition.number not in offsets:
            raise ValueError(
                f"option `{option}` must name every partition, and lacks `{partition.name}`; "
                "-2 stands for the earliest offset, -1 for the latest"
            )
        offset = offsets[partition.number]
    else:
        offset = place
    if isinstance(offset, int):
        return offset
    return found.first if offset == EARLIEST else found.end
