"""Mode `queue`: a durable consumer's messages, acknowledged when their rows are on disk."""

from __future__ import annotations

import logging
from typing import Any

from nats.js import api, errors

from tutorial_pkg.builder import Buffer, SourceBuilder, SourceContext
from tutorial_pkg.connectors.nats.client import NatsClient, stream_info
from tutorial_pkg.connectors.nats.messages import SCHEMA, Place, place_of, to_batch
from tutorial_pkg.connectors.nats.options import FORMAT, READ_QUEUE
from tutorial_pkg.connectors.nats.pull import Pull

FIRST_FETCHED, MOST_FETCHED = 50, 500  # messages at once
FETCHED_BYTES = 4 * 1024 * 1024  # about
INTEREST = api.RetentionPolicy.INTEREST  # keeps nothing while there is no consumer
WAIT_SECONDS = 0.2  # for the first of them: then others are acknowledged, or the query stops

_log = logging.getLogger(__name__)


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
        self._connection = NatsClient(context.options)
        self._broker: Any = None
        self._pull: Any = None
        self._count = FIRST_FETCHED
        self._created = self._consumer = ""  # when stream and consumer were made
        self._retention = ""
        self._floor, self._ahead = 0, set[int]()
        self._newest = (0, 0)  # the largest sequence number, and the latest time, in nanoseconds

    def fill(self, buffer: Buffer) -> None:
        """Add the messages that are not in the log yet; the others are only acknowledged again."""
        found = self._connection.ask(self._fetch)
        fresh = [each for each in found if self._is_new(place_of(each))]
        if found:
            rows = to_batch(fresh, [place_of(each) for each in fresh])
            buffer.add_batch(rows, token=[each.reply for each in found])

    def acknowledge(self, tokens: list[list[str]]) -> None:
        """The rows are on disk: the server need not send their messages again."""
        replies = [reply for each in tokens for reply in each]
        self._connection.ask(lambda broker: self._confirm(broker, replies))

    def snapshot(self) -> dict[str, Any]:
        known = {"floor": self._floor, "ahead": sorted(self._ahead), "newest": self._newest}
        known |= {"created": self._created, "consumer": self._consumer}
        return {"subject": self._options.subject, **known}

    def restore(self, snapshots: list[dict[str, Any]]) -> None:
        """Raises `ValueError` for another subject: it may have messages below the floor."""
        last, subject = snapshots[0], self._options.subject
        if last.get("subject", subject) != subject:  # earlier versions had none
            raise ValueError(
                f"option `subject` is {subject!r}, and the log in `path` is of "
                f"{last['subject']!r}: start anew, with a new log, checkpoint and `consumer`"
            )
        self._created, self._floor = last["created"], last["floor"]
        self._ahead = set(last["ahead"])
        self._newest = tuple(last.get("newest", self._newest))  # earlier versions had none,
        self._consumer = last.get("consumer", "")  # nor this

    def destroy(self) -> None:
        self._connection.close()

    def _is_new(self, place: Place) -> bool:
        """Whether it is not in the log; from now on it is.

        A server that has lost its last messages, or was restored, gives their numbers again: one
        that is known is later than all of them then. The latest time need not be the newest
        message's: a clock may be set back. What is not known may just come late.
        """
        sequence, (largest, latest) = place.sequence, self._newest
        given_again = sequence <= largest and place.nanoseconds > latest
        if sequence <= self._floor or sequence in self._ahead:
            if not given_again:
                return False
            self._begin_anew("has lost its last messages, and gives their numbers again")
            largest = latest = 0
        self._newest = max(largest, sequence), max(latest, place.nanoseconds)
        self._ahead.add(sequence)
        return True

    # ---- In the connection's loop

    async def _fetch(self, broker: Any) -> list[Any]:
        if self._broker is not broker:
            await self._begin(broker)
        found: list[Any] = await self._pull.fetch(min(self._count, self._most), WAIT_SECONDS)
        if found:
            size = sum(len(each.data) for each in found) or 1
            self._count = max(1, min(MOST_FETCHED, FETCHED_BYTES * len(found) // size))
        return found

    async def _begin(self, broker: Any) -> None:
        """Find the durable consumer, or make it; on each new connection."""
        options = self._options
        if self._broker is not None:  # a server closes a connection that has too much to take
            self._count = max(1, self._count // 10)
        info = await stream_info(broker, options.stream)
        try:
            consumer = await broker.consumer_info(options.stream, options.consumer)
        except errors.NotFoundError:
            consumer = await self._make_consumer(broker)
        self._check(consumer.config)
        self._notice(info.created.isoformat())
        self._retention = info.config.retention
        self._notice_consumer(consumer)
        self._pull = Pull(self._connection.client, options.stream, options.consumer)
        await self._pull.start()
        self._broker = broker

    def _check(self, config: Any) -> None:
        """Raises `ValueError` for somebody else's consumer that would lose messages."""
        options = self._options
        given = config.filter_subjects or [config.filter_subject]
        troubles = {
            "is a push consumer": config.deliver_subject,
            f"acknowledges by `{config.ack_policy}`": config.ack_policy != api.AckPolicy.EXPLICIT,
            "has headers only": config.headers_only,
            f"has the subjects {given}": options.subject and given != [options.subject],
        }
        for trouble in (text for text, is_so in troubles.items() if is_so):
            raise ValueError(
                f"option `consumer`: `{options.consumer}` is there and {trouble}; wanted is a pull "
                "consumer with explicit acknowledgements, with the option `subject` for its only "
                "one: choose another name, or delete it"
            )
        limit = config.max_ack_pending or 0  # or -1: none
        self._most = min(MOST_FETCHED, limit) if limit > 0 else MOST_FETCHED

    async def _make_consumer(self, broker: Any) -> Any:
        options = self._options
        config = api.ConsumerConfig(
            durable_name=options.consumer,
            filter_subject=options.subject,
            ack_policy=api.AckPolicy.EXPLICIT,
        )
        return await broker.add_consumer(options.stream, config)

    def _notice(self, created: str) -> None:
        """A re-created stream counts from 1 again."""
        if self._created not in ("", created):
            self._begin_anew("was deleted and made again: what was in it and not read is lost")
        self._created = created

    def _notice_consumer(self, consumer: Any) -> None:
        """One that was made again, by somebody or here, may miss what the old one had to give."""
        created, policy = consumer.created.isoformat(), consumer.config.deliver_policy
        has_all = policy == api.DeliverPolicy.ALL and self._retention != INTEREST
        if self._consumer not in ("", created) and not has_all:
            _log.warning(
                "consumer `%s` was deleted and made again: messages that it passes over (deliver "
                "policy `%s`) or that the stream dropped meanwhile (retention `%s`) are lost",
                *(self._options.consumer, policy, self._retention),
            )
        self._consumer = created

    def _begin_anew(self, why: str) -> None:
        _log.warning("stream `%s` %s", self._options.stream, why)
        self._floor, self._ahead, self._newest = 0, set(), (0, 0)

    async def _confirm(self, broker: Any, replies: list[str]) -> None:
        client = self._connection.client
        for reply in replies:
            await client.publish(reply, b"+ACK")
        await client.flush()
        await self._forget_below(broker)  # answered after all of these; `flush` may not be
        self._connection.raise_denied("$JS.ACK")

    async def _forget_below(self, broker: Any) -> None:
        """The server's floor rises behind the acknowledgements; it may be a moment late."""
        info = await broker.consumer_info(self._options.stream, self._options.consumer)
        self._notice_consumer(info)
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
