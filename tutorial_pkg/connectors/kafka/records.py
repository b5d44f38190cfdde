"""Records of one partition, from one offset up to another, as record batches: a task's work."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pyarrow as pa
from confluent_kafka import Consumer, TopicPartition

from tutorial_pkg.builder import SplitContext
from tutorial_pkg.connectors.kafka.client import Brokers
from tutorial_pkg.connectors.kafka.partitions import MADE_AGAIN, Partition

BATCH_BYTES = 4 * 1024 * 1024  # of a record batch, about
FIRST_RECORDS, MOST_RECORDS = 500, 20_000
WAIT_SECONDS = 0.2

# The client goes on behind such records: of a form that it does not know (or so it seems, as no sum
# guards the byte that says which), with a wrong sum, or that it cannot unpack.
UNREADABLE = {"_NOT_IMPLEMENTED", "_BAD_MSG", "_BAD_COMPRESSION"}

_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_TIMESTAMP = pa.timestamp("us", tz="UTC")
# Those of Spark's own consumers where the client's defaults are others.
_OURS = {
    "group.id": "tutorial_pkg",  # the client wants one; nothing is committed for it
    "isolation.level": "read_uncommitted",
    "check.crcs": True,
    "queued.max.messages.kbytes": 16 * 1024,  # what it fetches ahead
    "fetch.queue.backoff.ms": 10,
}
_FIXED = {"enable_auto_commit": False, "enable_partition_eof": True, "auto_offset_reset": "error"}


class Records:
    """One task's consumer, from its making until `close`."""

    def __init__(self, context: SplitContext, partition: Partition, start: int, end: int) -> None:
        self._context, self._partition = context, partition
        self._position, self._end = start, end
        self._brokers = Brokers.of_source(context.options)
        self._consumer = self._brokers.client(Consumer, _OURS, **_FIXED)
        self._count = FIRST_RECORDS

    def close(self) -> None:
        self._consumer.close()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All records in order. Raises what `Brokers` raises, and `LookupError`."""
        self._go_to(self._position)
        deadline = self._deadline()
        while self._position < self._end:
            found = self._consume()
            if found:
                yield self._batch(found)
                deadline = self._deadline()
            elif time.monotonic() > deadline:
                self._brokers.give_up()

    def _go_to(self, offset: int) -> None:
        place = TopicPartition(self._partition.topic, self._partition.number, offset)
        self._consumer.assign([place])

    def _deadline(self) -> float:
        return time.monotonic() + self._brokers.seconds

    def _consume(self) -> list[Any]:
        """The next records before the end; events that are none of them move the position."""
        count = min(self._count, self._end - self._position)
        records = list[Any]()
        for each in self._consumer.consume(count, timeout=WAIT_SECONDS):
            if each.error() is None:
                records.append(each)
            else:
                self._move_behind(records)  # from there on the event may have us read again
                self._handle(each)
        self._move_behind(records)
        return [each for each in records if each.offset() < self._end]

    def _move_behind(self, records: list[Any]) -> None:
        if records:
            self._position = max(self._position, records[-1].offset() + 1)

    # ---- Events

    def _handle(self, event: Any) -> None:
        error = event.error()
        name = error.name()
        if name == "_PARTITION_EOF":
            self._at_the_end(event)
        elif name in UNREADABLE:
            raise RuntimeError(
                f"records of partition `{self._partition.name}` from offset {event.offset()} "
                f"cannot be read: {error.str()}"
            )
        elif name == "_AUTO_OFFSET_RESET":
            self._deleted()
        elif name in ("UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_PARTITION", "_UNKNOWN_TOPIC"):
            self._lost("it is not there any more", self._end)
        else:
            self._brokers.note(error)
            self._brokers.raise_refusal()

    def _at_the_end(self, event: Any) -> None:
        """Behind the last record may be some that nobody sees: marks of a transaction.

        A follower may be behind, and a leader that was just elected takes the end for an earlier
        one; the client asks them for more by itself.
        """
        if event.offset() >= self._end:
            self._position = self._end
        elif (end := self._held()[1]) < self._end:
            self._lost(f"it ends at {end} now", self._end)
        else:
            self._brokers.note(event.error())

    def _held(self) -> tuple[int, int]:
        """Where the partition begins and ends, as its leader says."""
        place = TopicPartition(self._partition.topic, self._partition.number)
        first, end = self._brokers.patiently(
            lambda: self._consumer.get_watermark_offsets(place, timeout=self._brokers.ask_seconds),
            lambda: None,
        )
        return first, end

    def _deleted(self) -> None:
        first, end = self._held()
        if first > self._position:
            self._lost(f"it begins at {first} now", min(first, self._end))
        elif end < self._position:  # cut, by the election of a leader that had not all of it
            self._lost(f"it ends at {end} now", self._end)
        self._go_to(self._position)

    def _lost(self, what: str, go_on: int) -> None:
        """Records are gone; if the query may, it goes on at an offset."""
        self._context.lost(self._partition.lost_text(self._position, what))
        self._position = go_on

    # ---- Arrow

    def _batch(self, found: list[Any]) -> pa.RecordBatch:
        count = len(found)
        stamps = [each.timestamp() for each in found]
        columns = {
            "key": pa.array([each.key() for each in found], pa.binary()),
            "value": pa.array([each.value() for each in found], pa.binary()),
            "topic": pa.array([self._partition.topic], pa.string()).take(pa.array([0] * count)),
            "partition": pa.array([self._partition.number] * count, pa.int32()),
            "offset": pa.array([each.offset() for each in found], pa.int64()),
            # Spark counts from -1 (none), the client from 0.
            "timestamp": self._timestamps([ms if kind else -1 for kind, ms in stamps], found),
            "timestampType": pa.array([kind - 1 for kind, _ in stamps], pa.int32()),
        }
        if self._context.options.includeHeaders:
            columns["headers"] = pa.array([_headers(each) for each in found], _HEADERS)
        batch = pa.RecordBatch.from_pydict(columns)
        self._count = max(1, min(MOST_RECORDS, BATCH_BYTES * count // batch.nbytes))
        return batch

    def _timestamps(self, millis: list[int], found: list[Any]) -> pa.Array:
        """Raises `ValueError` for more than a timestamp can hold."""
        try:
            return pa.array([ms * 1000 for ms in millis], _TIMESTAMP)
        except OverflowError:
            wrong = max(millis, key=abs)
            offset = found[millis.index(wrong)].offset()
            raise ValueError(
                f"column `timestamp` cannot hold {wrong} milliseconds, which the record at offset "
                f"{offset} of partition `{self._partition.name}` has: its producer gave another "
                "unit"
            ) from None


def _headers(record: Any) -> list[dict[str, Any]] | None:
    found = record.headers()
    return [{"key": key, "value": value} for key, value in found] if found else None


def read(context: SplitContext, split: str, start: int, end: int) -> Iterator[pa.RecordBatch]:
    """The records of a partition from `start` up to, but without, `end`: a task's work.

    A batch that is repeated may find another topic of that name.
    """
    partition = Partition.parse(split)
    if context.connection.id_of(partition.topic) not in (partition.id, None):
        context.lost(partition.lost_text(start, MADE_AGAIN))
        return
    with closing(Records(context, partition, start, end)) as reading:
        yield from reading.batches()
