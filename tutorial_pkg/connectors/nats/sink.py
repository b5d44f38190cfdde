"""Rows to subjects, each with an id that stays the same when its batch is repeated."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from hashlib import blake2b
from itertools import repeat
from typing import Any

import pyarrow as pa
from pyspark.sql.types import BinaryType, DataType, MapType, StringType

from tutorial_pkg.builder import SinkBuilder, SinkContext, TargetContext
from tutorial_pkg.connectors.nats.client import NatsClient
from tutorial_pkg.connectors.nats.options import FORMAT, WRITE
from tutorial_pkg.connectors.nats.publishing import Message, Publishing
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

        What a broken connection leaves open is published again: its ids make that harmless.
        """
        for chunk in _chunks(self._messages(batch)):
            publish = partial(self._connection.ask, partial(self._publish, chunk))
            patiently(publish, _is_timeout, self._seconds)

    def close(self) -> None:
        self._connection.close()

    async def _publish(self, chunk: list[Message], broker: Any) -> None:
        if self._broker is not broker:
            self._publishing = Publishing(self._connection.client, broker)
            await self._publishing.start()
            self._broker = broker
        await self._publishing.send(chunk)

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
        if "\v" in subject or "\f" in subject:
            raise ValueError(f"subject {subject!r} has a blank that readers cannot parse")
        if "" in subject.split("."):
            raise ValueError(f"subject `{subject}` has an empty part between its dots")
        if not headers.get(ID):  # an empty one counts as none
            text = f"{subject}\0{sorted(headers.items())}\0".encode()
            digest = blake2b(text + data, digest_size=DIGEST_BYTES)
            self._equal[digest.digest()] += 1
            number = self._equal[digest.digest()]
            headers[ID] = f"{self._prefix}/{digest.hexdigest()}-{number}"
        return Message(subject, data, headers)


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
