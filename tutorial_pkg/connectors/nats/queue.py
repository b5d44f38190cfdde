"""Mode `queue`: a durable consumer's messages, acknowledged when their rows are on disk."""

from __future__ import annotations

from typing import Any

from nats.js import api, errors

from tutorial_pkg.builder import Buffer, SourceBuilder, SourceContext
from tutorial_pkg.connectors.nats.client import Connection, stream_info
from tutorial_pkg.connectors.nats.messages import SCHEMA, place_of, to_batch
from tutorial_pkg.connectors.nats.options import FORMAT, READ_QUEUE
from tutorial_pkg.connectors.nats.pull import Pull

FETCHED = 500  # messages at once


class Queue:
    """What is in the log already, so that a message that comes again is known.

    All sequence numbers up to `floor` are done for the server, too; those in `ahead` are in the
    log, and their acknowledgement may be under way, or lost with the server.
    """

    def __init__(self, context: SourceContext) -> None:
        if context.count != 1:
            raise ValueError(
                f"option `parallelism` must be 1 with the option `mode` queue, got {context.count}:"
                " one instance must know all messages that are in the log"
            )
        self._options = context.options
        self._connection = Connection(context.options)
        self._broker: Any = None
        self._pull: Any = None
        self._created = ""
        self._floor, self._ahead = 0, set[int]()

    def fill(self, buffer: Buffer) -> None:
        """Add the messages that are not in the log yet; the others are only acknowledged again."""
        found = self._connection.ask(self._fetch)
        fresh = [each for each in found if self._is_new(place_of(each).sequence)]
        if found:
            rows = to_batch(fresh, [place_of(each) for each in fresh])
            buffer.add_batch(rows, token=[each.reply for each in found])

    def acknowledge(self, tokens: list[list[str]]) -> None:
        """The rows are on disk: the server need not send their messages again."""
        replies = [reply for each in tokens for reply in each]
        self._connection.ask(lambda broker: self._confirm(broker, replies))

    def snapshot(self) -> dict[str, Any]:
        return {"created": self._created, "floor": self._floor, "ahead": sorted(self._ahead)}

    def restore(self, snapshots: list[dict[str, Any]]) -> None:
        last = snapshots[0]
        self._created, self._floor = last["created"], last["floor"]
        self._ahead = set(last["ahead"])

    def destroy(self) -> None:
        self._connection.close()

    def _is_new(self, sequence: int) -> bool:
        """Whether it is not in the log; from now on it is."""
        if sequence <= self._floor or sequence in self._ahead:
            return False
        self._ahead.add(sequence)
        return True

    # ---- In the connection's loop

    async def _fetch(self, broker: Any) -> list[Any]:
        if self._broker is not broker:
            await self._begin(broker)
        found: list[Any] = await self._pull.fetch(FETCHED)
        return found

    async def _begin(self, broker: Any) -> None:
        """Find the durable consumer, or make it; on each new connection."""
        options = self._options
        info = await stream_info(broker, options.stream)
        try:
            await broker.consumer_info(options.stream, options.consumer)
        except errors.NotFoundError:
            await self._make_consumer(broker)
        self._notice(info.created.isoformat())
        self._pull = Pull(self._connection.client, options.stream, options.consumer)
        await self._pull.start()
        self._broker = broker

    async def _make_consumer(self, broker: Any) -> None:
        options = self._options
        config = api.ConsumerConfig(
            durable_name=options.consumer,
            filter_subject=options.subject,
            ack_policy=api.AckPolicy.EXPLICIT,
        )
        await broker.add_consumer(options.stream, config)

    def _notice(self, created: str) -> None:
        """A stream that was made again counts from 1 again."""
        if created != self._created:
            self._created, self._floor, self._ahead = created, 0, set()

    async def _confirm(self, broker: Any, replies: list[str]) -> None:
        client = self._connection.client
        for reply in replies:
            await client.publish(reply, b"+ACK")
        await client.flush()
        await self._forget_below(broker)

    async def _forget_below(self, broker: Any) -> None:
        """The server's floor rises behind the acknowledgements; it may be a moment late."""
        info = await broker.consumer_info(self._options.stream, self._options.consumer)
        self._floor = max(self._floor, info.ack_floor.stream_seq)
        self._ahead = {sequence for sequence in self._ahead if sequence > self._floor}


source = (
    SourceBuilder.stream(FORMAT, SCHEMA, create=Queue)
    .retry(seconds=0)  # it waits by itself
    .fill(Queue.fill)
    .snapshot(Queue.snapshot)
    .restore(Queue.restore)
    .acknowledge(Queue.acknowledge)
    .destroy(Queue.destroy)
    .options(*READ_QUEUE)
    .build()
)
