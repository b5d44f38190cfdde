"""What the driver asks Kafka about topics: their partitions, ids and offsets."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property
from typing import Any

from confluent_kafka import IsolationLevel, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from tutorial_pkg.builder import OptionValues
from tutorial_pkg.connectors.kafka.client import Brokers
from tutorial_pkg.connectors.kafka.options import Numbers
from tutorial_pkg.connectors.kafka.partitions import Partition, Range

# Kafka's own; as with Java's client, no pattern means them, and a name does.
INTERNAL = {"__consumer_offsets", "__transaction_state"}


class Topics:
    """One connection as long as the query runs, opened when something is asked."""

    def __init__(self, options: OptionValues) -> None:
        self._options = options
        self.ranges: dict[Partition, Range] = {}

    def look(self) -> dict[Partition, Range]:
        """The wanted partitions that exist now, with the offsets that each holds.

        Raises `LookupError` for a topic or a partition that is not there, `TimeoutError` when the
        brokers are away for too long, and `PermissionError`.
        """
        self.ranges = self._brokers.patiently(self._look, lambda: self._admin.poll(0))
        return self.ranges

    def id_of(self, topic: str) -> str | None:
        """The id of the topic that has this name now; None if there is none."""

        def ask() -> str | None:
            try:
                return self._ids([topic])[topic]
            except KafkaException as error:
                if error.args[0].name() != "UNKNOWN_TOPIC_OR_PART":
                    raise
                return None

        return self._brokers.patiently(ask, lambda: self._admin.poll(0))

    def _look(self) -> dict[Partition, Range]:
        found = self._admin.list_topics(timeout=self._brokers.ask_seconds).topics
        there = {name: sorted(topic.partitions) for name, topic in found.items()}
        wanted = self._wanted(there)
        ids = self._ids(wanted)
        partitions = [
            Partition(topic, number, ids[topic])
            for topic, numbers in wanted.items()
            for number in numbers
        ]
        firsts = self._offsets(partitions, OffsetSpec.earliest())
        ends = self._offsets(partitions, OffsetSpec.latest())
        return {each: Range(firsts[each], ends[each]) for each in partitions}

    def _wanted(self, there: Numbers) -> Numbers:
        """Those of the existing partitions that the options name."""
        if self._options.subscribePattern:
            name = re.compile(self._options.subscribePattern)
            names = [topic for topic in sorted(there.keys() - INTERNAL) if name.fullmatch(topic)]
            return {topic: there[topic] for topic in names}
        if self._options.assign:
            wanted: Numbers = self._options.assign
        else:
            wanted = {topic: there.get(topic, []) for topic in self._options.subscribe}
        for topic, numbers in wanted.items():
            self._check(topic, numbers, there.get(topic, []))
        return wanted

    def _check(self, topic: str, wanted: list[int], there: list[int]) -> None:
        if not there:
            raise LookupError(
                f"there is no topic `{topic}` at {self._brokers.where}; "
                "create it, or correct the option `subscribe` or `assign`"
            )
        if set(wanted) - set(there):
            raise LookupError(
                f"option `assign`: topic `{topic}` has the partitions {there}, not {wanted}"
            )

    def _ids(self, topics: Iterable[str]) -> dict[str, str]:
        """A re-created topic has a new id."""
        names = list(topics)
        if not names:
            return {}
        asked = TopicCollection(names)
        described = self._admin.describe_topics(asked, request_timeout=self._brokers.ask_seconds)
        return {topic: str(found.result().topic_id) for topic, found in described.items()}

    def _offsets(self, partitions: list[Partition], spec: Any) -> dict[Partition, int]:
        asked = {TopicPartition(each.topic, each.number): each for each in partitions}
        if not asked:
            return {}
        found = self._admin.list_offsets(
            dict.fromkeys(asked, spec),
            isolation_level=self._isolation(),
            request_timeout=self._brokers.ask_seconds,
        )
        return {asked[place]: int(answer.result().offset) for place, answer in found.items()}

    def _isolation(self) -> Any:
        given = self._brokers.settings.get("isolation.level", "")
        committed = given.strip().lower() == "read_committed"  # the client takes capitals, too
        return IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED

    @cached_property
    def _brokers(self) -> Brokers:
        return Brokers.of_source(self._options)

    @cached_property
    def _admin(self) -> Any:
        return self._brokers.client(AdminClient)

    def close(self) -> None:
        """Disconnect: the client has no `close`, and ends with its last reference."""
        self.__dict__.pop("_admin", None)
