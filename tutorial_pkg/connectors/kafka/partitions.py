"""Partitions, and the offsets that they hold."""

from __future__ import annotations

from dataclasses import dataclass

from tutorial_pkg.connectors.kafka.options import EARLIEST, LATEST, Places

MADE_AGAIN = "its topic was deleted and made again"


@dataclass(frozen=True, order=True)
class Partition:
    """A topic's partition; `id` is the topic's, which no other topic of that name has.

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

    def lost_text(self, offset: int | None, what: str) -> str:
        """How people learn that records are gone; `offset` is where to read on, if it is known."""
        place = "" if offset is None else f" from offset {offset}"
        return f"partition `{self.name}` was to be read on{place}, but {what}"


@dataclass(frozen=True)
class Range:
    """What a partition holds: from the offset `first` up to, but without, `end`."""

    first: int
    end: int

    def offset_at(self, place: Places, partition: Partition, option: str) -> int:
        """The offset that `place` means in this partition.

        Raises `ValueError` when the option does not name the partition.
        """
        offsets = (
            {partition.number: place} if isinstance(place, int) else place.get(partition.topic, {})
        )
        if partition.number not in offsets:
            raise ValueError(
                f"option `{option}` must name every partition, and lacks `{partition.name}`; "
                "-2 stands for the earliest offset, -1 for the latest"
            )
        offset = offsets[partition.number]
        return {EARLIEST: self.first, LATEST: self.end}.get(offset, offset)
