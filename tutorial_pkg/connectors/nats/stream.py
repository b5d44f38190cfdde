"""Mode `stream`: a JetStream stream, read by sequence numbers as often as you like."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from nats.js import api, errors

from tutorial_pkg.builder import SourceBuilder, Split, SplitContext
from tutorial_pkg.connectors.nats.client import NatsClient, stream_info
from tutorial_pkg.connectors.nats.messages import SCHEMA, Puller, place_of, to_batch
from tutorial_pkg.connectors.nats.options import EARLIEST, FORMAT, LATEST, READ_STREAM

IDLE_SECONDS = 60.0  # after which the server forgets a task's consumer


def look(context: SplitContext) -> dict[str, Split]:
    """Return the stream with its first and its next sequence number."""
    options = context.options
    info = context.connection.ask(lambda broker: stream_info(broker, options.stream))
    if info.config.retention in ("workqueue", "interest"):
        raise ValueError(
            f"stream `{options.stream}` keeps a message only until it is read: read it with the "
            "option `mode` queue"
        )
    first, end = first_sequence(info), info.state.last_seq + 1
    if context.offset is None:
        start = options.startingSequence
        first = {EARLIEST: first, LATEST: end}.get(start, start)
    return {info.config.name: Split(first, end, identity(info))}


def first_sequence(info: Any) -> int:
    return max(1, int(info.state.first_seq))


def identity(info: Any) -> str:
    """Return what differs for a re-created stream."""
    return str(info.created.isoformat())


def read(context: SplitContext, split: str, start: int, end: int) -> Iterator[pa.RecordBatch]:
    reading = Reading(context, start, end)
    while reading.position < end:
        batch = context.retry(lambda: context.connection.ask(reading.fetch))
        if batch is not None:
            yield batch
    context.retry(lambda: context.connection.ask(reading.done))


class Reading:
    """A consumer that the server makes for one task, and again on each new connection."""

    def __init__(self, context: SplitContext, start: int, end: int) -> None:
        self._context = context
        self._stream: str = context.options.stream
        self._subject: str | None = context.options.subject
        self.position, self._end = start, end
        self._broker: Any = None
        self._pending = 0

    async def fetch(self, broker: Any) -> pa.RecordBatch | None:
        """Return the next messages before the end, and move the position. None if there are none.

        After an error, the position is the old one.
        """
        if self._broker is not broker:
            await self._begin(broker)
        most = min(self._pending, self._end - self.position)
        messages = await self._puller.fetch(most) if most else []
        if most and not messages:
            self._broker = None  # the pending messages were deleted: begin again
            return None
        places = [place_of(message) for message in messages]
        missing = [at for at, place in enumerate(places, self.position) if place.sequence != at]
        if missing:  # those deleted after the consumer was made are skipped silently
            self._check_first(await stream_info(broker, self._stream), missing[0])
        self._pending = places[-1].pending if places else 0
        following = places[-1].sequence + 1 if places else self.position
        if not self._pending:
            await self._check_end(broker, following)
        self.position = following if self._pending else self._end
        inside = sum(place.sequence < self._end for place in places)
        return to_batch(messages[:inside], places[:inside]) if inside else None

    async def done(self, broker: Any) -> None:
        """Delete the consumer; otherwise the server does, after some idle time."""
        if self._broker is broker:
            with contextlib.suppress(errors.NotFoundError):
                await broker.delete_consumer(self._stream, self._consumer)

    async def _begin(self, broker: Any) -> None:
        """Create the consumer. A repeated batch may find less than was planned."""
        config = api.ConsumerConfig(
            deliver_policy=api.DeliverPolicy.BY_START_SEQUENCE,
            opt_start_seq=self.position,
            filter_subject=self._subject,
            ack_policy=api.AckPolicy.NONE,
            inactive_threshold=IDLE_SECONDS,
            mem_storage=True,
        )
        consumer = await broker.add_consumer(self._stream, config)
        client = self._context.connection.client
        self._puller = await Puller(client, self._stream, consumer.name).open()
        self._consumer, self._pending = consumer.name, consumer.num_pending
        info = await stream_info(broker, self._stream)
        self._replicas = info.config.num_replicas
        if identity(info) != self._context.identity:
            self._lose("it was re-created since the batch was planned")
            self.position, self._pending = self._end, 0
        else:
            self._check_first(info, self.position)
        self._broker = broker

    def _check_first(self, info: Any, position: int) -> None:
        first = first_sequence(info)
        if position < first:
            self._lose(f"it starts at {first}, and {position} was next")

    def _lose(self, reason: str) -> None:
        self._context.lost(f"stream `{self._stream}`: {reason}")

    async def _check_end(self, broker: Any, following: int) -> None:
        """In a cluster the consumer may be on a server that lags: ask its leader for more."""
        if following < self._end and self._replicas > 1:
            with contextlib.suppress(errors.NotFoundError):
                subject = self._subject or ">"
                more = await broker.get_msg(self._stream, following, subject, next=True)
                if more.seq < self._end:
                    raise TimeoutError("a server of the cluster lacks messages of the stream")


source = (
    SourceBuilder.replayable(FORMAT, SCHEMA, look=look, read=read)
    .retry(pause=0.2, option="timeoutSeconds")
    .connect(NatsClient)
    .close(NatsClient.close)
    .distributed()
    .options(*READ_STREAM)
    .build()
)
