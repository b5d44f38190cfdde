"""What the driver asks Kafka about topics: their partitions, ids and offsets."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from confluent_kafka import IsolationLevel, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from tutorial_pkg.builder import OptionValues
from tutorial_pkg.connectors.kafka.client import Brokers
from tutorial_pkg.connectors.kafka.options import Numbers

# Kafka's own: only a name can mean them, never a pattern, as with Java's client.
INTERNAL = {"__consumer_offsets", "__transaction_state"}


@dataclass(frozen=True)
class Partition:
    """A partition that exists now.

    `first` is its oldest offset, `end` the next one; a re-created topic has a different `id`.
    """

    topic: str
    number: int
    id: str
    first: int
    end: int


class Topics:
    """The driver's connection, opened at the first request."""

    def __init__(self, options: OptionValues) -> None:
        self._options = options

    def partitions(self) -> list[Partition]:
        """Return the existing partitions that the options name.

        Raises:
            LookupError: a topic or a partition that the options name does not exist.
            TimeoutError: the brokers do not respond.
            PermissionError: the brokers refuse access.
        """
        with self._brokers.responding(lambda: self._admin.poll(0)):
            topics = self._admin.list_topics(timeout=self._brokers.request_seconds).topics
            existing = {name: sorted(topic.partitions) for name, topic in topics.items()}
            chosen = self._chosen(existing)
            ids = self._ids(chosen)
            places = [TopicPartition(name, part) for name in chosen for part in chosen[name]]
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

    def close(self) -> None:
        """Disconnect: the client has no `close`, and ends with its last reference."""
        self.__dict__.pop("_admin", None)

    def _chosen(self, existing: Numbers) -> Numbers:
        if self._options.subscribePattern:
            name = re.compile(self._options.subscribePattern)
            names = [topic for topic in sorted(existing.keys() - INTERNAL) if name.fullmatch(topic)]
            return {topic: existing[topic] for topic in names}
        chosen: Numbers = self._options.assign or {
            topic: existing.get(topic, []) for topic in self._options.subscribe
        }
        for topic, numbers in chosen.items():
            if topic not in existing:
                raise LookupError(
                    f"there is no topic `{topic}` at {self._brokers.address}; create it, or "
                    "correct the option `subscribe` or `assign`"
                )
            if set(numbers) - set(existing[topic]):
                raise LookupError(
                    f"option `assign`: topic `{topic}` has the partitions {existing[topic]}, "
                    f"not {numbers}"
                )
        return chosen

    def _ids(self, topics: Iterable[str]) -> dict[str, str]:
        names = list(topics)
        if not names:
            return {}
        futures = self._admin.describe_topics(
            TopicCollection(names), request_timeout=self._brokers.request_seconds
        )
        return {topic: str(future.result().topic_id) for topic, future in futures.items()}

    def _offsets(self, places: list[TopicPartition], spec: Any) -> dict[TopicPartition, int]:
        if not places:
            return {}
        futures = self._admin.list_offsets(
            dict.fromkeys(places, spec),
            isolation_level=self._isolation(),
            request_timeout=self._brokers.request_seconds,
        )
        return {place: int(future.result().offset) for place, future in futures.items()}

    def _isolation(self) -> Any:
        level = self._brokers.settings.get("isolation.level", "").strip().lower()
        committed = level == "read_committed"  # the client accepts capitals, too
        return IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED

    @cached_property
    def _brokers(self) -> Brokers:
        return Brokers.of_source(self._options)

    @cached_property
    def _admin(self) -> Any:
        return self._brokers.client(AdminClient)
