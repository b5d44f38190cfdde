"""A task's consumer: the records of one partition, from one offset up to another, as batches."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from confluent_kafka import Consumer, TopicPartition

from tutorial_pkg.builder import SplitContext
from tutorial_pkg.connectors.kafka.client import Brokers

BATCH_BYTES = 4 * 1024 * 1024  # of a record batch, about
FIRST_RECORDS, MOST_RECORDS = 500, 20_000
WAIT_SECONDS = 0.2

# The client would continue after records with an unknown format, a wrong checksum or a wrong codec.
UNREADABLE = {"_NOT_IMPLEMENTED", "_BAD_MSG", "_BAD_COMPRESSION"}
GONE = {"UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_PARTITION", "_UNKNOWN_TOPIC"}

_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_MILLIS, _TIMESTAMP = pa.timestamp("ms", tz="UTC"), pa.timestamp("us", tz="UTC")
# The defaults of Spark's consumers where the client's defaults differ.
_DEFAULTS = {
    "group.id": "tutorial_pkg",  # required by the client; nothing is committed for it
    "isolation.level": "read_uncommitted",
    "check.crcs": True,
    "queued.max.messages.kbytes": 16 * 1024,  # prefetched
    "fetch.queue.backoff.ms": 10,
}
_FIXED = {"enable_auto_commit": False, "enable_partition_eof": True, "auto_offset_reset": "error"}


class Records:
    """One task's consumer, until `close`."""

    def __init__(
        self, context: SplitContext, topic: str, number: int, start: int, end: int
    ) -> None:
        self._context = context
        self._topic, self._number, self._name = topic, number, f"{topic}-{number}"
        self._position, self._end = start, end
        self._brokers = Brokers.of_source(context.options)
        self._consumer = self._brokers.client(Consumer, _DEFAULTS, **_FIXED)
        self._count = FIRST_RECORDS

    def close(self) -> None:
        self._consumer.close()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield all records in order. Raises what `Brokers` raises, and `LookupError`."""
        self._seek(self._position)
        deadline = time.monotonic() + self._brokers.seconds
        while self._position < self._end:
            records = self._consume()
            if records:
                yield self._to_batch(records)
                deadline = time.monotonic() + self._brokers.seconds
            elif time.monotonic() > deadline:
                self._brokers.give_up()

    def _seek(self, offset: int) -> None:
        self._consumer.assign([TopicPartition(self._topic, self._number, offset)])

    def _consume(self) -> list[Any]:
        """Return the next records before the end; other events may move the position."""
        count = min(self._count, self._end - self._position)
        records = list[Any]()
        for event in self._consumer.consume(count, timeout=WAIT_SECONDS):
            if event.error() is None:
                records.append(event)
            else:
                self._advance(records)  # the event may have us read again from the position
                self._handle(event)
        self._advance(records)
        return [record for record in records if record.offset() < self._end]

    def _advance(self, records: list[Any]) -> None:
        if records:
            self._position = max(self._position, records[-1].offset() + 1)

    # ---- Events

    def _handle(self, event: Any) -> None:
        error = event.error()
        name = error.name()
        if name == "_PARTITION_EOF":
            self._handle_end(event)
        elif name in UNREADABLE:
            raise RuntimeError(
                f"records of partition `{self._name}` from offset {event.offset()} cannot be "
                f"read: {error.str()}"
            )
        elif name == "_AUTO_OFFSET_RESET":
            self._handle_deleted()
        elif name in GONE:
            self._lose("does not exist any more", self._end)
        else:
            self._brokers.note(error)
            self._brokers.raise_refusal()

    def _handle_end(self, event: Any) -> None:
        """Transaction markers may follow the last visible record.

        A follower that lags, and a leader that was just elected, report an end that is too early;
        the client then asks them again.
        """
        if event.offset() >= self._end:
            self._position = self._end
        elif (end := self._held()[1]) < self._end:
            self._lose(f"ends at {end} now", self._end)
        else:
            self._brokers.note(event.error())

    def _handle_deleted(self) -> None:
        first, end = self._held()
        if first > self._position:
            self._lose(f"starts at {first} now", min(first, self._end))
        elif end < self._position:  # cut by the election of a leader that lacked the rest
            self._lose(f"ends at {end} now", self._end)
        self._seek(self._position)

    def _held(self) -> tuple[int, int]:
        """Return the partition's first and next offset, from its leader."""
        place = TopicPartition(self._topic, self._number)

        def ask() -> tuple[int, int]:
            with self._brokers.responding():
                first, end = self._consumer.get_watermark_offsets(
                    place, timeout=self._brokers.request_seconds
                )
                return first, end

        return self._context.retry(ask)

    def _lose(self, reason: str, continue_at: int) -> None:
        self._context.lost(
            f"partition `{self._name}` was to be read from offset {self._position}, but it {reason}"
        )
        self._position = continue_at

    # ---- Arrow

    def _to_batch(self, records: list[Any]) -> pa.RecordBatch:
        count = len(records)
        stamps = [record.timestamp() for record in records]
        columns = {
            "key": pa.array([record.key() for record in records], pa.binary()),
            "value": pa.array([record.value() for record in records], pa.binary()),
            "topic": pa.array([self._topic], pa.string()).take(pa.array([0] * count)),
            "partition": pa.array([self._number] * count, pa.int32()),
            "offset": pa.array([record.offset() for record in records], pa.int64()),
            # Spark counts from -1 (none), the client from 0.
            "timestamp": pa.array([ms if kind else -1 for kind, ms in stamps], _MILLIS).cast(
                _TIMESTAMP
            ),
            "timestampType": pa.array([kind - 1 for kind, _ in stamps], pa.int32()),
        }
        if self._context.options.includeHeaders:
            columns["headers"] = pa.array([_headers(record) for record in records], _HEADERS)
        batch = pa.RecordBatch.from_pydict(columns)
        self._count = max(1, min(MOST_RECORDS, BATCH_BYTES * count // batch.nbytes))
        return batch


def _headers(record: Any) -> list[dict[str, Any]] | None:
    headers = record.headers()
    return [{"key": key, "value": value} for key, value in headers] if headers else None
