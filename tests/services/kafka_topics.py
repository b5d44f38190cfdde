"""Topics of a real broker for tests: create, fill, read and delete them."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql.types import ArrayType, StructType

from spark_connector_tests.query_process import wait_until

SECONDS = 20
SCHEMA = (
    StructType()
    .add("key", "binary")
    .add("value", "binary")
    .add("topic", "string")
    .add("partition", "integer")
    .add("offset", "long")
    .add("timestamp", "timestamp")
    .add("timestampType", "integer")
)
_HEADER = StructType().add("key", "string").add("value", "binary")
SCHEMA_WITH_HEADERS = StructType(list(SCHEMA.fields)).add("headers", ArrayType(_HEADER))


class Topics:
    """A client for the tests' side."""

    def __init__(self, uri: str) -> None:
        # Otherwise the client prints to stderr, even after the server has stopped.
        self.settings = {"bootstrap.servers": uri, "log_level": 2}
        self.options = {"kafka.bootstrap.servers": uri}
        self._admin = AdminClient(self.settings)
        # See `start_kafka` for why.
        self._producer = Producer({**self.settings, "batch.num.messages": 1})

    def make(self, topic: str, partitions: int = 1) -> None:
        for done in self._admin.create_topics([NewTopic(topic, partitions, 1)]).values():
            done.result(SECONDS)

    def delete(self, topic: str) -> None:
        for done in self._admin.delete_topics([topic]).values():
            done.result(SECONDS)

    def send(self, topic: str, values: Iterable[object], **more: Any) -> None:
        """Return when the broker has them."""
        for value in values:
            self._producer.produce(topic, str(value), **more)
        assert self._producer.flush(SECONDS) == 0

    def records(self, topic: str) -> list[Any]:
        """Return all records of the topic."""
        settings = {**self.settings, "group.id": "tests", "enable.auto.commit": False}
        with closing(Consumer({**settings, "enable.partition.eof": True})) as consumer:
            numbers = consumer.list_topics(topic, timeout=SECONDS).topics[topic].partitions
            consumer.assign([TopicPartition(topic, number, 0) for number in numbers])
            events: list[Any] = []

            def at_the_ends() -> bool:
                events.extend(consumer.consume(10_000, timeout=0.05))
                ended = {event.partition() for event in events if event.error() is not None}
                return ended == set(numbers)

            wait_until(at_the_ends, SECONDS, f"the ends of {topic}")
        errors = {event.error().name() for event in events if event.error() is not None}
        assert errors == {"_PARTITION_EOF"}
        return [event for event in events if event.error() is None]

    def values(self, topic: str) -> list[str | None]:
        values = [record.value() for record in self.records(topic)]
        return [None if value is None else value.decode() for value in values]
