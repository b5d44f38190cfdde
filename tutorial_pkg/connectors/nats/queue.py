"""Mode `queue`: a durable consumer's messages, acknowledged when their rows are on disk."""

from __future__ import annotations

import logging
from typing import Any

from nats.js import api, errors

from tutorial_pkg.builder import Buffer, SourceBuilder, SourceContext
from tutorial_pkg.connectors.nats.client import NatsClient, stream_info
from tutorial_pkg.connectors.nats.messages import SCHEMA, Puller, place_of, to_batch
from tutorial_pkg.connectors.nats.options import FORMAT, READ_QUEUE

MOST_FETCHED = 500  # messages at once
WAIT_SECONDS = 0.2  # for the first message; then it is time to acknowledge, or to stop

_log = logging.getLogger(__name__)


class Queue:
    """A consumer, and what is in the log already, so that a redelivered message is recognized.

    All sequence numbers up to `floor` are acknowledged. Those in `ahead` are in the log, but the
    server may not have received their acknowledgements.
    """

    def __init__(self, context: SourceContext) -> None:
        if context.count != 1:
            raise ValueError(
                f"option `parallelism` must be 1 with the option `mode` queue, got {context.count}:"
                " one instance has to know all messages in the log"
            )
        self._options = context.options
        self._connection = NatsClient(context.options)
        self._broker: Any = None
        self._created = self._consumer = ""  # when the stream and the consumer were created
        self._floor, self._ahead = 0, set[int]()

    def fill(self, buffer: Buffer) -> None:
        """Add the new messages; redelivered ones are only acknowledged again."""
        messages = self._connection.ask(self._fetch)
        new = [message for message in messages if self._is_new(place_of(message).sequence)]
        if messages:
            rows = to_batch(new, [place_of(message) for message in new])
            buffer.add_batch(rows, token=[message.reply for message in messages])

    def acknowledge(self, tokens: list[list[str]]) -> None:
        replies = [reply for token in tokens for reply in token]
        self._connection.ask(lambda broker: self._confirm(broker, replies))

    def snapshot(self) -> dict[str, Any]:
        return {
            "subject": self._options.subject,
            "floor": self._floor,
            "ahead": sorted(self._ahead),
            "created": self._created,
            "consumer": self._consumer,
        }

    def restore(self, snapshots: list[dict[str, Any]]) -> None:
        """Raises `ValueError` for a different subject: it may have messages below the floor."""
        last, subject = snapshots[0], self._options.subject
        if last.get("subject", subject) != subject:
            raise ValueError(
                f"option `subject` is {subject!r}, and the log in `path` has {last['subject']!r}: "
                "start with a new log, checkpoint and `consumer`"
            )
        self._created, self._consumer = last["created"], last.get("consumer", "")
        self._floor, self._ahead = last["floor"], set(last["ahead"])

    def destroy(self) -> None:
        self._connection.close()

    def _is_new(self, sequence: int) -> bool:
        """Return whether the message is not in the log yet, and remember it."""
        if sequence <= self._floor or sequence in self._ahead:
            return False
        self._ahead.add(sequence)
        return True

    # ---- In the connection's loop

    async def _fetch(self, broker: Any) -> list[Any]:
        if self._broker is not broker:
            await self._begin(broker)
        return await self._puller.fetch(self._most, WAIT_SECONDS)

    async def _begin(self, broker: Any) -> None:
        """Find the durable consumer, or create it."""
        options = self._options
        self._compare_stream(await stream_info(broker, options.stream))
        try:
            consumer = await broker.consumer_info(options.stream, options.consumer)
        except errors.NotFoundError:
            config = api.ConsumerConfig(
                durable_name=options.consumer,
                filter_subject=options.subject,
                ack_policy=api.AckPolicy.EXPLICIT,
            )
            consumer = await broker.add_consumer(options.stream, config)
        self._check(consumer.config)
        self._compare_consumer(consumer)
        client = self._connection.client
        self._puller = await Puller(client, options.stream, options.consumer).open()
        self._broker = broker

    def _compare_stream(self, info: Any) -> None:
        """A re-created stream counts from 1 again, and so does one that lost its last messages."""
        created, logged = info.created.isoformat(), max(self._ahead, default=self._floor)
        recreated = self._created not in ("", created)
        if recreated or info.state.last_seq < logged:
            _log.warning(
                "stream `%s` %s: its unread messages are lost, and it is read from its start",
                self._options.stream,
                "was re-created" if recreated else "has lost its last messages",
            )
            self._floor, self._ahead = 0, set()
        self._created = created

    def _compare_consumer(self, consumer: Any) -> None:
        """Warn of a re-created consumer: it may skip what the old one had not delivered."""
        created = consumer.created.isoformat()
        if self._consumer not in ("", created):
            _log.warning(
                "consumer `%s` was re-created; messages that it skips, or that the stream dropped "
                "without it, are lost",
                self._options.consumer,
            )
        self._consumer = created

    def _check(self, config: Any) -> None:
        """Raises `ValueError` for a consumer that would lose messages."""
        options, subjects = self._options, config.filter_subjects or [config.filter_subject]
        is_ours = not options.subject or subjects == [options.subject]
        is_explicit = config.ack_policy == api.AckPolicy.EXPLICIT
        if config.deliver_subject or config.headers_only or not (is_explicit and is_ours):
            raise ValueError(
                f"option `consumer`: `{options.consumer}` exists with the subjects {subjects} and "
                f"acknowledges by `{config.ack_policy}`; expected a pull consumer with explicit "
                "acknowledgements, whole messages and the option `subject` as its only subject: "
                "choose a different name, or delete it"
            )
        limit = config.max_ack_pending or 0  # or -1: none
        self._most = min(MOST_FETCHED, limit) if limit > 0 else MOST_FETCHED

    async def _confirm(self, broker: Any, replies: list[str]) -> None:
        client = self._connection.client
        for reply in replies:
            await client.publish(reply, b"+ACK")
        await client.flush()
        # The server responds to this after all acknowledgements; its floor may lag a moment.
        info = await broker.consumer_info(self._options.stream, self._options.consumer)
        self._compare_consumer(info)
        self._floor = max(self._floor, info.ack_floor.stream_seq)
        self._ahead = {sequence for sequence in self._ahead if sequence > self._floor}


source = (
    SourceBuilder.stream(FORMAT, SCHEMA, create=Queue)
    .retry(pause=0.2, option="timeoutSeconds")
    .fill(Queue.fill)
    .snapshot(Queue.snapshot)
    .restore(Queue.restore)
    .acknowledge(Queue.acknowledge)
    .destroy(Queue.destroy)
    .options(*READ_QUEUE)
    .build()
)
