"""A task's consumer: the records of one partition, from one offset up to another, as batches."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from confluent_kafka import Consumer, TopicPartition

from tutorial_pkg.builder import SplitContext
from tutorial_pkg.connectors.kafka.client import REQUEST_SECONDS, Brokers
from tutorial_pkg.connectors.kafka.options import TIMEOUT

BATCH_BYTES = 4 * 1024 * 1024  # of a record batch, about
FIRST_RECORDS, MOST_RECORDS = 500, 20_000
WAIT_SECONDS = 0.2

# The client would continue after records with an unknown format, a wrong checksum or a wrong codec.
UNREADABLE = {"_NOT_IMPLEMENTED", "_BAD_MSG", "_BAD_COMPRESSION"}

_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_MICROS = pa.timestamp("us", tz="UTC")
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
        self._brokers = Brokers(context.options)
        self._seconds = context.options[TIMEOUT] / 1000
        self._consumer = self._brokers.client(Consumer, _DEFAULTS, **_FIXED)
        self._count = FIRST_RECORDS

    def close(self) -> None:
        self._consumer.close()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield all records in order. Raises what `Brokers` raises, and `LookupError`."""
        self._seek()
        deadline = time.monotonic() + self._seconds
        while self._position < self._end:
            records = self._consume()
            if records:
                yield self._to_batch(records)
                deadline = time.monotonic() + self._seconds
            elif time.monotonic() > deadline:
                self._brokers.give_up()

    def _seek(self) -> None:
        self._consumer.assign([TopicPartition(self._topic, self._number, self._position)])

    def _consume(self) -> list[Any]:
        """Return the next records before the end, and move the position; so do other events."""
        count = min(self._count, self._end - self._position)
        records = list[Any]()
        for event in self._consumer.consume(count, timeout=WAIT_SECONDS):
            if event.error() is not None:
                self._handle(event)
            elif event.offset() < self._end:
                records.append(event)
                self._position = event.offset() + 1
            else:  # those before it are gone, or markers of a transaction
                self._position = self._end
        return records

    # ---- Events

    def _handle(self, event: Any) -> None:
        error = event.error()
        if error.name() in UNREADABLE:
            raise RuntimeError(
                f"records of partition `{self._name}` from offset {event.offset()} cannot be "
                f"read: {error.str()}"
            )
        self._brokers.note(error)
        self._brokers.raise_refusal()
        if error.name() == "_PARTITION_EOF" and event.offset() >= self._end:
            self._position = self._end  # markers of a transaction follow the last record
        elif error.name() == "_PARTITION_EOF":
            self._check_held()  # a follower that lags reports an early end, and is asked again
        elif error.name() == "_AUTO_OFFSET_RESET":
            self._check_held()
            self._seek()

    def _check_held(self) -> None:
        """Report records that the partition's leader does not have any more, and skip them."""
        place = TopicPartition(self._topic, self._number)

        def ask() -> tuple[int, int]:
            with self._brokers.responding():
                first, end = self._consumer.get_watermark_offsets(place, timeout=REQUEST_SECONDS)
                return first, end

        first, end = self._context.retry(ask)
        wanted = f"partition `{self._name}` was to be read from offset {self._position}"
        if end < self._end:  # cut by the election of a leader that lacked the rest
            self._context.lost(f"{wanted} to {self._end}, but it ends at {end} now")
            self._end = max(end, self._position)
        elif first > self._position:
            self._context.lost(f"{wanted}, but it starts at {first} now")
            self._position = min(first, self._end)

    # ---- Arrow

    def _to_batch(self, records: list[Any]) -> pa.RecordBatch:
        count = len(records)
        stamps = [record.timestamp() for record in records]
        columns = {
            "key": pa.array([record.key() for record in records], pa.binary()),
            "value": pa.array([record.value() for record in records], pa.binary()),
            "topic": pa.repeat(self._topic, count),
            "partition": pa.repeat(pa.scalar(self._number, pa.int32()), count),
            "offset": pa.array([record.offset() for record in records], pa.int64()),
            # Spark counts from -1 (none), the client from 0.
            "timestamp": pa.array([ms * 1000 if kind else -1000 for kind, ms in stamps], _MICROS),
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
