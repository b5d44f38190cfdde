"""Messages in bulk: received on request, as record batches, with their places in the stream."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any, NamedTuple, Self

import pyarrow as pa
from nats import errors

SCHEMA = (
    "subject STRING, data BINARY, sequence LONG, timestamp TIMESTAMP_LTZ, "
    "headers MAP<STRING, STRING>"
)

FIRST_MESSAGES, MOST_MESSAGES = 5, 5_000  # of one request
FETCHED_BYTES = 4 * 1024 * 1024  # about; servers close a connection that has too much in flight

_TIMESTAMP = pa.timestamp("us", tz="UTC")
_HEADERS = pa.map_(pa.string(), pa.string())
_SHORT = 9  # words of a reply subject; newer servers prepend the account's domain and hash
_NONE_NOW = ("404", "408")  # no messages, or the request has expired
_WRONG = re.compile("400|409 (Exceeded|Consumer is push based)")  # others may pass: a new leader


class Place(NamedTuple):
    """A message's place in its stream; `pending` counts the messages after it."""

    sequence: int
    nanoseconds: int
    pending: int


def place_of(message: Any) -> Place:
    """Parse `$JS.ACK.STREAM.CONSUMER.DELIVERED.SEQUENCE.OWN_SEQUENCE.TIME.PENDING`."""
    words = message.reply.split(".")
    first = 5 if len(words) == _SHORT else 7
    return Place(int(words[first]), int(words[first + 2]), int(words[first + 3]))


def to_batch(messages: list[Any], places: list[Place]) -> pa.RecordBatch:
    headers = [message.headers and list(message.headers.items()) for message in messages]
    return pa.RecordBatch.from_pydict(
        {
            "subject": pa.array([message.subject for message in messages], pa.string()),
            "data": pa.array([message.data for message in messages], pa.binary()),
            "sequence": pa.array([place.sequence for place in places], pa.int64()),
            "timestamp": pa.array([place.nanoseconds // 1000 for place in places], _TIMESTAMP),
            "headers": pa.array(headers, _HEADERS),
        }
    )


class Inbox:
    """A subscription that collects what arrives at `name` and any word after it.

    The client's own `fetch` and `publish_async` start a timer or keep a future for each message,
    and take two to eight times as long.
    """

    def __init__(self, client: Any) -> None:
        self.client, self.name = client, client.new_inbox()
        messages = asyncio.Queue[Any]()
        self.receive, self._put = messages.get, messages.put

    async def open(self) -> Self:
        # Requests bound what is in flight, so the client need not.
        limits = {"pending_msgs_limit": -1, "pending_bytes_limit": -1}
        subscription = await self.client.subscribe(f"{self.name}.*", cb=self._put, **limits)
        self.close = subscription.unsubscribe
        return self


class Puller(Inbox):
    """Fetches the messages of a consumer, as many at once as have about 4 MiB."""

    def __init__(self, client: Any, stream: str, consumer: str) -> None:
        super().__init__(client)
        self._subject = f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}"
        self._count = FIRST_MESSAGES

    async def fetch(self, most: int, seconds: float = 0) -> list[Any]:
        """Return up to `most` messages, waiting up to `seconds` for the first one.

        Raises the client's `NoRespondersError` when the consumer is gone, and `RuntimeError` when
        it does not accept the request.
        """
        count, size, messages = min(most, self._count), 0, list[Any]()
        request: dict[str, Any] = {"batch": count, "no_wait": True}
        if seconds:
            request["expires"] = int(seconds * 1e9)
        text, reply = json.dumps(request).encode(), f"{self.name}.next"
        await self.client.publish(self._subject, text, reply=reply)
        while len(messages) < count:
            message = await self.receive()
            if not message.reply:  # which is to acknowledge it: it is a status instead
                self._check_status(message.headers or {})
                break
            messages.append(message)
            size += len(message.data)
        if messages:
            self._count = max(1, min(MOST_MESSAGES, FETCHED_BYTES * len(messages) // (size or 1)))
        return messages

    def _check_status(self, headers: dict[str, str]) -> None:
        """Raise an error unless there are no more messages."""
        status = f"{headers.get('Status')} {headers.get('Description')}"
        if _WRONG.match(status):
            raise RuntimeError(f"request to `{self._subject}` failed: {status}")
        if not status.startswith(_NONE_NOW):
            raise errors.NoRespondersError
