"""The source: `look` asks the brokers for partitions and offsets, `read` runs in a task."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from confluent_kafka import IsolationLevel, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from tutorial_pkg.builder import OptionValues, SourceBuilder, Split, SplitContext
from tutorial_pkg.connectors.kafka.client import REQUEST_SECONDS, Brokers
from tutorial_pkg.connectors.kafka.options import (
    CUT,
    EARLIEST,
    FORMAT,
    LATEST,
    MOST,
    READ,
    TIMEOUT,
    Places,
    schema,
)
from tutorial_pkg.connectors.kafka.records import Records

# Kafka's own: only a name can mean them, never a pattern, as with Java's client.
INTERNAL = {"__consumer_offsets", "__transaction_state"}


def look(context: SplitContext) -> dict[str, Split]:
    """Return the partitions and their offsets. One that appears later is read from its start."""
    options = context.options
    if options.endingOffsets is not None and not context.batch:
        raise ValueError("option `endingOffsets` is for `spark.read`: a stream has no end")
    start = options.startingOffsets
    if start is None:
        start = EARLIEST if context.batch else LATEST
    splits = {}
    for partition in context.connection.partitions():
        first, end = partition.first, partition.end
        if context.offset is None:
            first = offset_of(partition, start, "startingOffsets")
        if options.endingOffsets is not None:
            end = offset_of(partition, options.endingOffsets, "endingOffsets")
        if context.batch and end < first:
            raise ValueError(
                f"partition `{partition.name}` would be read from offset {first} to {end}: correct "
                "the option `startingOffsets` or `endingOffsets`"
            )
        splits[partition.name] = Split(first, end, partition.id)
    return splits


def read(context: SplitContext, split: str, start: int, end: int) -> Iterator[pa.RecordBatch]:
    """Yield the records of a partition from `start` up to, but without, `end`."""
    topic, _, number = split.rpartition("-")
    if context.connection.id_of(topic) != context.identity:  # possible in a repeated batch
        context.lost(f"partition `{split}`: its topic was deleted or re-created in the meantime")
        return
    with closing(Records(context, topic, int(number), start, end)) as records:
        yield from records.batches()


@dataclass(frozen=True)
class Partition:
    """A partition; `first` is its oldest offset, `end` the next one, `id` that of its topic."""

    topic: str
    number: int
    id: str
    first: int
    end: int

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.number}"


def offset_of(partition: Partition, places: Places, option: str) -> int:
    """Return the offset that an option means. Raises `ValueError` if it omits the partition."""
    if isinstance(places, int):
        offset: int | None = places
    else:
        offset = places.get(partition.topic, {}).get(partition.number)
    if offset is None:
        raise ValueError(
            f"option `{option}` must name every partition, and lacks `{partition.name}`; -2 stands "
            "for the earliest offset, -1 for the latest"
        )
    return {EARLIEST: partition.first, LATEST: partition.end}.get(offset, offset)


class Topics:
    """The driver's connection."""

    def __init__(self, options: OptionValues) -> None:
        self._options, self._brokers = options, Brokers(options)
        self._admin = self._brokers.client(AdminClient)  # ends with its last reference

    def partitions(self) -> list[Partition]:
        """Return the existing partitions that the options name.

        Raises `LookupError` for one that does not exist, and what `Brokers` raises.
        """
        with self._brokers.responding(lambda: self._admin.poll(0)):
            topics = self._admin.list_topics(timeout=REQUEST_SECONDS).topics
            existing = {name: sorted(topic.partitions) for name, topic in topics.items()}
            chosen = self._chosen(existing)
            places = [TopicPartition(name, part) for name in chosen for part in chosen[name]]
            if not places:  # which the client would refuse
                return []
            ids = self._ids(chosen)
            firsts = self._offsets(places, OffsetSpec.earliest())
            ends = self._offsets(places, OffsetSpec.latest())
        return [
            Partition(place.topic, place.partition, ids[place.topic], firsts[place], ends[place])
            for place in places
        ]

    def id_of(self, topic: str) -> str | None:
        """Return the id of the topic that has this name now, or None if there is none."""
        with self._brokers.responding(lambda: self._admin.poll(0)):
            try:
                return self._ids([topic])[topic]
            except KafkaException as error:
                if error.args[0].name() == "UNKNOWN_TOPIC_OR_PART":
                    return None
                raise

    def _chosen(self, existing: dict[str, list[int]]) -> dict[str, list[int]]:
        if self._options.subscribePattern:
            name = re.compile(self._options.subscribePattern)
            names = [topic for topic in sorted(existing.keys() - INTERNAL) if name.fullmatch(topic)]
        else:
            names = self._options.subscribe
        for topic in names:
            if topic not in existing:
                raise LookupError(
                    f"there is no topic `{topic}` at {self._brokers.address}; create it, or "
                    "correct the option `subscribe`"
                )
        return {topic: existing[topic] for topic in names}

    def _ids(self, topics: Collection[str]) -> dict[str, str]:
        names = TopicCollection(list(topics))
        futures = self._admin.describe_topics(names, request_timeout=REQUEST_SECONDS)
        return {topic: str(future.result().topic_id) for topic, future in futures.items()}

    def _offsets(self, places: list[TopicPartition], spec: Any) -> dict[TopicPartition, int]:
        committed = self._brokers.settings.get("isolation.level", "").lower() == "read_committed"
        isolation = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        limits = {"isolation_level": isolation, "request_timeout": REQUEST_SECONDS}
        futures = self._admin.list_offsets(dict.fromkeys(places, spec), **limits)
        return {place: int(future.result().offset) for place, future in futures.items()}


source = (
    SourceBuilder.replayable(FORMAT, schema, look=look, read=read)
    .retry(pause=0.2, option=TIMEOUT)
    .connect(Topics)
    .limit(MOST)
    .distributed(1, CUT)
    .options(*READ)
    .build()
)
