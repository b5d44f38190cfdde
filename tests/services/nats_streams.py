"""JetStream streams of a real server for tests: create, fill, read and delete them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

import nats
from nats.js.api import AckPolicy, ConsumerConfig, RetentionPolicy
from pyspark.sql.types import MapType, StringType, StructType

Answer = TypeVar("Answer")

FETCHED = 1_000
SCHEMA = (
    StructType()
    .add("subject", "string")
    .add("data", "binary")
    .add("sequence", "long")
    .add("timestamp", "timestamp")
    .add("headers", MapType(StringType(), StringType()))
)


class Streams:
    """A client for the tests' side; each call opens a new connection."""

    def __init__(self, uri: str, **login: str) -> None:
        self.uri, self._login = uri, login
        self.options = {"url": uri}

    def ask(self, question: Callable[[Any], Awaitable[Answer]]) -> Answer:
        async def run() -> Answer:
            client = await nats.connect(self.uri, connect_timeout=20, **self._login)
            try:
                return await question(client.jetstream(timeout=20))
            finally:
                await client.close()

        return asyncio.run(run())

    def make(self, name: str, queue: bool = False, **config: Any) -> None:
        """Create a stream for the subjects `name.>`."""
        kind = RetentionPolicy.WORK_QUEUE if queue else RetentionPolicy.LIMITS
        self.ask(
            lambda broker: broker.add_stream(
                name=name, subjects=[f"{name}.>"], retention=kind, **config
            )
        )

    def delete(self, name: str) -> None:
        self.ask(lambda broker: broker.delete_stream(name))

    def forget(self, name: str, below: int) -> None:
        """Delete the messages below a sequence number."""
        self.ask(lambda broker: broker.purge_stream(name, seq=below))

    def send(self, subject: str, values: Iterable[object], **headers: str) -> None:
        """Return when the stream has them."""

        async def publish(broker: Any) -> None:
            under_way = [
                await broker.publish_async(subject, str(value).encode(), headers=headers or None)
                for value in values
            ]
            await asyncio.gather(*under_way)

        self.ask(publish)

    def left(self, name: str) -> int:
        """Return the number of messages in the stream."""
        return int(self.ask(lambda broker: broker.stream_info(name)).state.messages)

    def messages(self, name: str) -> list[Any]:
        """Return all messages of the stream."""

        async def read(broker: Any) -> list[Any]:
            config = ConsumerConfig(ack_policy=AckPolicy.NONE)
            pulling = await broker.pull_subscribe("", None, name, config)
            left = (await pulling.consumer_info()).num_pending
            messages: list[Any] = []
            while len(messages) < left:
                messages += await pulling.fetch(min(FETCHED, left - len(messages)), timeout=20)
            return messages

        return self.ask(read)

    def values(self, name: str) -> list[str]:
        return [message.data.decode() for message in self.messages(name)]
