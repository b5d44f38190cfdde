"""Rows to subjects, each with an id that stays the same when its batch is repeated."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from hashlib import blake2b
from itertools import repeat
from typing import Any, NamedTuple

import pyarrow as pa
from nats import errors
from nats.js import errors as js_errors
from pyspark.sql.types import BinaryType, DataType, MapType, StringType

from tutorial_pkg.builder import SinkBuilder, SinkContext, TargetContext
from tutorial_pkg.connectors.nats.client import NatsClient
from tutorial_pkg.connectors.nats.options import FORMAT, WRITE
from tutorial_pkg.core.columns import check_columns, places
from tutorial_pkg.core.pauses import patiently

ID = "Nats-Msg-Id"
CHUNK_MESSAGES, CHUNK_BYTES = 2_000, 4 * 1024 * 1024  # in flight
DIGEST_BYTES = 12
HEADER_NAME, HEADER_VALUE = (
    re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"),
    re.compile(r"(?!\s)[^\r\n]*(?<!\s)"),
)
SERVERS_OWN = ("$JS.", "$SYS.")  # a row could delete a stream

_COLUMNS: dict[str, tuple[DataType, ...]] = {
    "data": (StringType(), BinaryType()),
    "subject": (StringType(),),
    "headers": (MapType(StringType(), StringType()),),
}


def check(context: TargetContext) -> None:
    """Raise `ValueError` unless the sink can write rows of this schema."""
    check_columns(FORMAT, context.schema, _COLUMNS, "data", "subject", context.options.subject)


class Message(NamedTuple):
    subject: str
    data: bytes
    headers: dict[str, str]


class Publisher:
    """A task's connection; `send` returns when the stream has the rows."""

    def __init__(self, context: SinkContext) -> None:
        self._subject: str | None = context.options.subject
        self._prefix = f"{context.query}/{context.batch}/{context.index}"
        self._connection = NatsClient(context.options)
        self._seconds: float = context.options.timeoutSeconds
        self._broker: Any = None
        self._equal: Counter[bytes] = Counter()

    def send(self, batch: pa.RecordBatch) -> None:
        """Publish all rows. Raises `RuntimeError` that names a subject, or `TimeoutError`.

        After a broken connection, unconfirmed messages are published again; their ids make that
        harmless.
        """
        for chunk in _chunks(self._messages(batch)):
            publish = partial(self._connection.ask, partial(self._publish, chunk))
            patiently(publish, _is_timeout, self._seconds)

    def close(self) -> None:
        self._connection.close()

    async def _publish(self, chunk: list[Message], broker: Any) -> None:
        if self._broker is not broker:
            self._stream = StreamWriter(self._connection.client, broker)
            await self._stream.start()
            self._broker = broker
        await self._stream.send(chunk)

    def _messages(self, batch: pa.RecordBatch) -> Iterator[Message]:
        count = batch.num_rows
        subjects = places(batch, "subject", self._subject)
        data = batch.column("data").cast(pa.binary()).to_pylist()
        columns = batch.schema.names
        headers = batch["headers"].to_pylist() if "headers" in columns else repeat(None, count)
        for subject, payload, pairs in zip(subjects, data, headers, strict=True):
            yield self._message(subject, payload or b"", _headers(pairs or ()))

    def _message(self, subject: str, data: bytes, headers: dict[str, str]) -> Message:
        """Add an id, unless the row has one.

        It is made of the row's values, since a repeated task may get its rows in a different order.
        Equal rows are numbered.
        """
        if subject.startswith(SERVERS_OWN):
            raise ValueError(f"subject `{subject}` is for requests to the server, not for messages")
        if "" in subject.split(".") or re.search(r"\s", subject):
            raise ValueError(f"subject {subject!r} has an empty part between its dots, or a space")
        if not headers.get(ID):  # an empty one counts as none
            text = f"{subject}\0{sorted(headers.items())}\0".encode()
            digest = blake2b(text + data, digest_size=DIGEST_BYTES)
            self._equal[digest.digest()] += 1
            number = self._equal[digest.digest()]
            headers[ID] = f"{self._prefix}/{digest.hexdigest()}-{number}"
        return Message(subject, data, headers)


class StreamWriter:
    """Publishes a chunk at a time, and waits for the stream's acknowledgements of all of it.

    The client's own `publish_async` keeps a future and a lock per message, and takes twice as long.
    Here one subscription receives the acknowledgements: each message has a numbered inbox.
    """

    def __init__(self, client: Any, broker: Any) -> None:
        self._client, self._broker, self._inbox = client, broker, client.new_inbox()
        self._replies: list[Any] = []
        self._sent = 0
        self._received = asyncio.Event()

    async def start(self) -> None:
        limits = {"pending_msgs_limit": -1, "pending_bytes_limit": -1}
        await self._client.subscribe(f"{self._inbox}.*", cb=self._receive, **limits)

    async def send(self, chunk: list[Message]) -> None:
        """Return when a stream has acknowledged each message; other replies don't count.

        Raises `RuntimeError` that names the subject.
        """
        missing, first = set(range(len(chunk))), self._sent
        self._sent += len(chunk)
        for number, (subject, data, headers) in enumerate(chunk, first):
            reply = f"{self._inbox}.{number}"
            try:
                await self._client.publish(subject, data, reply=reply, headers=headers)
            except (errors.MaxPayloadError, errors.BadSubjectError, errors.BadHeaderError) as error:
                raise RuntimeError(f"subject `{subject}`: {error}") from None
        while missing:
            await self._received.wait()
            self._received.clear()
            replies, self._replies = self._replies, []
            for reply in replies:
                number = int(reply.subject.rpartition(".")[2]) - first
                if number < 0:  # late
                    continue
                if is_acknowledgement(reply.data):
                    missing.discard(number)
                else:
                    await self._explain(chunk[number].subject, reply.data)

    async def _receive(self, reply: Any) -> None:
        self._replies.append(reply)
        self._received.set()

    async def _explain(self, subject: str, data: bytes) -> None:
        """Raise the reason of a reply other than an acknowledgement."""
        error = _parse(data).get("error")
        if isinstance(error, dict):
            raise RuntimeError(f"subject `{subject}`: {error.get('description')}")
        try:
            await self._broker.find_stream_name_by_subject(subject)
        except js_errors.NotFoundError:
            raise RuntimeError(f"no stream takes the subject `{subject}`; create one") from None
        if not data:  # the stream's server is starting
            raise errors.NoRespondersError


def is_acknowledgement(data: bytes) -> bool:
    """Return whether a stream reports where it has stored the message.

    Other services may listen to the subject, too, and respond with anything.
    """
    reply = _parse(data)
    stream, sequence = reply.get("stream"), reply.get("seq")
    return bool(stream) and isinstance(sequence, int) and sequence > 0 and "error" not in reply


def _parse(data: bytes) -> dict[str, Any]:
    try:
        reply = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return reply if isinstance(reply, dict) else {}


def _headers(pairs: Iterable[tuple[str, str | None]]) -> dict[str, str]:
    """Refuse headers that the client would drop or change silently."""
    headers = {name: value or "" for name, value in pairs}
    for name, value in headers.items():
        if not HEADER_NAME.fullmatch(name) or not HEADER_VALUE.fullmatch(value):
            raise ValueError(
                f"column `headers` cannot hold {name!r}: {value!r}. A name has ASCII letters, "
                "digits and !#$%&'*+-.^_`|~; a value has no newline, and no blank at either end"
            )
    return headers


def _is_timeout(error: Exception) -> bool:
    return isinstance(error, TimeoutError)


def _chunks(messages: Iterator[Message]) -> Iterator[list[Message]]:
    chunk: list[Message] = []
    size = 0
    for message in messages:
        chunk.append(message)
        size += len(message.data)
        if len(chunk) >= CHUNK_MESSAGES or size >= CHUNK_BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


sink = (
    SinkBuilder.stream(FORMAT, create=Publisher)
    .retry(seconds=0)  # `send` repeats single chunks
    .receive_batch(Publisher.send)
    .destroy(Publisher.close)
    .check(check)
    .options(*WRITE)
    .build()
)
