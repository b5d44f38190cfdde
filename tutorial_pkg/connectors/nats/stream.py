"""Mode `stream`: a JetStream stream that is read by sequence numbers, as often as one likes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pyarrow as pa
from nats.js import api, errors

from tutorial_pkg.builder import Position, SourceBuilder, SplitContext
from tutorial_pkg.connectors.nats.client import NatsClient, stream_info
from tutorial_pkg.connectors.nats.messages import SCHEMA, place_of, to_batch
from tutorial_pkg.connectors.nats.options import EARLIEST, FORMAT, LATEST, READ_STREAM
from tutorial_pkg.connectors.nats.pull import Pull

MADE_AGAIN = "it was deleted and made again"
DELETES = {
    "workqueue": "is a work queue, whose messages go to one reader",
    "interest": "has its messages only until its consumers have acknowledged them",
}
BATCH_BYTES = 4 * 1024 * 1024  # of a record batch, about
FIRST_MESSAGES, MOST_MESSAGES = 50, 5_000
IDLE_SECONDS = 60.0  # then the server forgets a task's consumer


class Stream(NatsClient):
    """The connection of the driver, with what it has seen of the stream; and that of a task."""

    first = end = replicas = 1
    split = ""

    def look(self, name: str) -> None:
        """See what the stream holds now. Raises `LookupError` if it is not there."""
        info = self.ask(lambda broker: stream_info(broker, name))
        if info.config.retention in DELETES:
            raise ValueError(
                f"stream `{name}` {DELETES[info.config.retention]}: read it with the option `mode` "
                "queue"
            )
        self.note(info)

    def note(self, info: Any) -> None:
        self.first, self.end = max(1, info.state.first_seq), info.state.last_seq + 1
        self.replicas = info.config.num_replicas
        self.split = f"{info.config.name}@{info.created.isoformat()}"  # made again: another one


# ---- In the driver -------------------------------------------------------------------------------


def splits(context: SplitContext) -> dict[str, Position]:
    """The stream, if it is the one that the query knows, and where to begin."""
    options, stream = context.options, context.connection
    stream.look(options.stream)
    if context.offset is not None:
        if stream.split not in context.offset:
            _lost(context, MADE_AGAIN)
        return {stream.split: stream.first}
    begins = {EARLIEST: stream.first, LATEST: stream.end}
    return {stream.split: begins.get(options.startingSequence, options.startingSequence)}


def latest(context: SplitContext, split: str, start: int) -> int:
    """The sequence number that the stream gives next, as `splits` has just seen it."""
    stream: Stream = context.connection
    _check_first(context, start)
    if start > stream.end:
        _lost(context, f"it ends before {stream.end}, and {start} was next")
    return stream.end


def _check_first(context: SplitContext, position: int) -> None:
    first = context.connection.first
    if position < first:
        _lost(context, f"it begins at {first}, and {position} was next")


def _lost(context: SplitContext, what: str) -> None:
    context.lost(f"stream `{context.options.stream}`: {what}")


# ---- In a task -----------------------------------------------------------------------------------


def read(context: SplitContext, split: str, start: int, end: int) -> Iterator[pa.RecordBatch]:
    """The messages of a range, in order."""
    reading = Reading(context, split, start, end)
    while reading.position < end:
        batch = reading.advance(context.connection.ask(reading.fetch))
        if batch is not None:
            yield batch
    context.connection.ask(reading.done)


class Reading:
    """A consumer that the server makes for one task; made again on a new connection."""

    def __init__(self, context: SplitContext, split: str, start: int, end: int) -> None:
        self._context, self._split = context, split
        self._stream: Stream = context.connection
        self._name: str = context.options.stream
        self.position, self._end = start, end
        self._broker: Any = None
        self._pending = 0
        self._count = FIRST_MESSAGES

    async def fetch(self, broker: Any) -> list[Any]:
        """Some of the next messages; none when there is none left of the wanted subject."""
        if self._broker is not broker:
            await self._begin(broker)
            await self._check_there(broker)
        most = min(self._count, self._pending, self._end - self.position)
        found = await self._pull.fetch(most) if most else []
        await self._check_gap(broker, found)
        await self._check_end(broker, found)
        return found

    async def _begin(self, broker: Any) -> None:
        config = api.ConsumerConfig(
            deliver_policy=api.DeliverPolicy.BY_START_SEQUENCE,
            opt_start_seq=self.position,
            filter_subject=self._context.options.subject,
            ack_policy=api.AckPolicy.NONE,
            inactive_threshold=IDLE_SECONDS,
            mem_storage=True,
        )
        if self._broker is not None:  # a server closes a connection that has too much to take
            self._count = max(1, self._count // 10)
        made = await broker.add_consumer(self._name, config)
        self._pull = Pull(self._stream.client, self._name, made.name)
        await self._pull.start()
        self._broker, self._consumer, self._pending = broker, made.name, made.num_pending

    async def _check_there(self, broker: Any) -> None:
        """A batch that is repeated may find less than the driver has planned, or another stream.

        Looked at when the consumer is there: what it finds, this look finds as well.
        """
        self._stream.note(await stream_info(broker, self._name))
        if self._split == self._stream.split:
            _check_first(self._context, self.position)
        else:
            _lost(self._context, MADE_AGAIN)
            self.position, self._pending = self._end, 0

    async def _check_gap(self, broker: Any, found: list[Any]) -> None:
        """What is deleted when the consumer is there is left out by the server without a word.

        Some servers have sent messages twice. Raises `TimeoutError`, so that they are asked again.
        """
        numbers = [place_of(each).sequence for each in found]
        if any(later <= earlier for earlier, later in pairwise([self.position - 1, *numbers])):
            raise TimeoutError("its messages came twice, or in another order")
        missing = next((n for n, each in enumerate(numbers, self.position) if each != n), None)
        if missing is not None:
            self._stream.note(await stream_info(broker, self._name))
            _check_first(self._context, missing)

    async def _check_end(self, broker: Any, found: list[Any]) -> None:
        """In a cluster the consumer may be on a server that has not all messages yet.

        Raises `TimeoutError`, so that it is asked again, with another consumer, if there are more.
        """
        place = place_of(found[-1]) if found else None
        following = place.sequence + 1 if place else self.position
        pending = place.pending if place else self._pending
        if pending or following >= self._end or self._stream.replicas == 1:
            return
        subject = self._context.options.subject or ">"
        with contextlib.suppress(errors.NotFoundError):
            more = await broker.get_msg(self._name, following, subject, next=True)
            if more.seq < self._end:
                raise TimeoutError("a server of its cluster lacks messages of the stream")

    async def done(self, broker: Any) -> None:
        """Have the server forget the consumer; an idle or disconnected one it forgets by itself."""
        if self._broker is broker:
            with contextlib.suppress(errors.NotFoundError):
                await broker.delete_consumer(self._name, self._consumer)

    def advance(self, found: list[Any]) -> pa.RecordBatch | None:
        """What is before the end, as a record batch; the position is behind it then."""
        places = [place_of(message) for message in found]
        if not found and self._pending:
            self._broker = None  # what was to come has been deleted: ask anew
            return None
        done = not found or not places[-1].pending
        self.position = self._end if done else places[-1].sequence + 1
        self._pending = places[-1].pending if places else 0
        inside = sum(place.sequence < self._end for place in places)
        if not inside:
            return None
        batch = to_batch(found[:inside], places[:inside])
        self._count = max(1, min(MOST_MESSAGES, BATCH_BYTES * inside // batch.nbytes))
        return batch


source = (
    SourceBuilder.replayable(FORMAT, SCHEMA, splits, latest, read)
    .retry(seconds=0)  # it waits by itself
    .connect(Stream)
    .close(Stream.close)
    .distributed()
    .options(*READ_STREAM)
    .build()
)
