"""Rows to topics: a task's producer, and the columns that it takes, those of Spark's Kafka sink."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import repeat
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import KafkaException, Producer
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    StringType,
    StructField,
    StructType,
)

from tutorial_pkg.builder import SinkBuilder, SinkContext, TargetContext
from tutorial_pkg.connectors.kafka.client import Brokers
from tutorial_pkg.connectors.kafka.options import FORMAT, WRITE, check_hidden
from tutorial_pkg.core.columns import check_columns, places

ANY_PARTITION = -1

_BYTES = (StringType(), BinaryType())
_HEADER = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
_COLUMNS: dict[str, tuple[DataType, ...]] = {
    "key": _BYTES,
    "value": _BYTES,
    "topic": (StringType(),),
    "partition": (IntegerType(),),
    "headers": (ArrayType(_HEADER),),
}
_DEFAULTS = {
    "acks": "all",
    "partitioner": "murmur2_random",  # Java's: the same key goes to the same partition
    "delivery.timeout.ms": 120_000,
    "queue.buffering.max.kbytes": 64 * 1024,
    "linger.ms": 5,
}


def check(context: TargetContext) -> None:
    check_hidden(context.options)
    Brokers(context.options)
    check_columns(FORMAT, context.schema, _COLUMNS, "value", "topic", context.options.topic)


class Sender:
    """A producer for the rows of one task; `flush` returns when the brokers have them all."""

    def __init__(self, context: SinkContext) -> None:
        self._topic: str | None = context.options.topic
        self._brokers = Brokers(context.options)
        self._producer = self._brokers.client(Producer, _DEFAULTS, delivery_report_only_error=True)
        self._sent = self._refused = 0
        self._first_refusal = ""

    def send(self, batch: pa.RecordBatch) -> None:
        """Hand all rows to the client, which sends them in the background."""
        self._sent += batch.num_rows
        for topic, value, key, partition, headers in self._rows(batch):
            self._produce(topic, value, key, partition, self._report, None, 0, headers)
        self._producer.poll(0)
        self._raise_refusal()

    def flush(self) -> None:
        """Raise `RuntimeError` with the topic and the reason of a refusal.

        Also for records that were not sent within `kafka.delivery.timeout.ms`.
        """
        self._producer.flush()
        self._raise_refusal()

    def close(self) -> None:
        """Drop unsent records: after an error the client would try for minutes."""
        self._producer.purge()
        self._producer.flush(1)

    def _rows(self, batch: pa.RecordBatch) -> Iterable[tuple[Any, ...]]:
        """Yield the arguments of `produce` for each row."""
        topics = places(batch, "topic", self._topic)
        partitions = _column(batch, "partition", _numbers, ANY_PARTITION)
        headers = _column(batch, "headers", _pairs, None)
        keys = _column(batch, "key", _bytes, None)
        return zip(topics, _bytes(batch.column("value")), keys, partitions, headers, strict=False)

    def _produce(self, *record: Any) -> None:
        try:
            try:
                self._producer.produce(*record)
            except BufferError:  # the client's buffer is full
                self.flush()
                self._producer.produce(*record)
        except KafkaException as error:  # refused by the client itself
            self._note_refusal(record[0], error.args[0])

    def _report(self, error: Any, record: Any) -> None:
        self._note_refusal(record.topic(), error)

    def _note_refusal(self, topic: str, error: Any) -> None:
        self._refused += 1
        self._first_refusal = self._first_refusal or f"topic `{topic}`: {error.str()}"

    def _raise_refusal(self) -> None:
        if self._refused:
            self._brokers.raise_refusal()
            raise RuntimeError(
                f"{self._refused} of {self._sent} records were not written; {self._first_refusal}"
            )


def _column(
    batch: pa.RecordBatch, name: str, convert: Callable[[pa.Array], list[Any]], default: Any
) -> Iterable[Any]:
    return convert(batch.column(name)) if name in batch.schema.names else repeat(default)


def _bytes(column: pa.Array) -> list[bytes | None]:
    return list(column.cast(pa.binary()).to_pylist())


def _numbers(column: pa.Array) -> list[int]:
    """Only a null lets the key choose the partition, as with Java's client."""
    if pc.any(pc.less(column, 0)).as_py():
        raise ValueError(f"column `partition` cannot hold {pc.min(column)}: give 0 or more or null")
    return list(column.fill_null(ANY_PARTITION).to_pylist())


def _pairs(column: pa.Array) -> list[list[tuple[str, bytes | None]] | None]:
    return [pairs and [_pair(header) for header in pairs] for pairs in column.to_pylist()]


def _pair(header: dict[str, Any] | None) -> tuple[str, bytes | None]:
    """Refuse a NUL in a key: the client would cut the key there."""
    if header is None or header["key"] is None or "\0" in header["key"]:
        raise ValueError(f"column `headers` cannot hold {header}: a header has a key, without NUL")
    return header["key"], header["value"]


sink = (
    SinkBuilder.stream(FORMAT, create=Sender)
    .retry(seconds=0)  # the client resends, for `kafka.delivery.timeout.ms`
    .receive_batch(Sender.send)
    .flush(Sender.flush)
    .destroy(Sender.close)
    .check(check)
    .options(*WRITE)
    .build()
)
