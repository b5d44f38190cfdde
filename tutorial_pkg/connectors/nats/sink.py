"""Rows to subjects, each with an id that stays the same when its batch is repeated."""

from __future__ import annotations

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
from tutorial_pkg.connectors.nats.messages import Inbox
from tutorial_pkg.connectors.nats.options import FORMAT, WRITE
from tutorial_pkg.core.columns import check_columns, places
from tutorial_pkg.core.pauses import Tries

ID = "Nats-Msg-Id"
CHUNK_MESSAGES, CHUNK_BYTES = 2_000, 4 * 1024 * 1024  # in flight, about
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
        """Publish all rows, a chunk at a time.

        After a broken connection, a chunk is published again; the ids make that harmless. Raises
        `RuntimeError` that names a subject, or `TimeoutError`.
        """
        fitting = CHUNK_BYTES * batch.num_rows // max(1, batch.nbytes)
        size = max(1, min(CHUNK_MESSAGES, fitting))
        for start in range(0, batch.num_rows, size):
            chunk = list(self._messages(batch.slice(start, size)))
            publish = partial(self._connection.ask, partial(self._publish, chunk))
            tries = Tries(lambda error: isinstance(error, TimeoutError), self._seconds)
            tries.patiently(publish)

    def close(self) -> None:
        self._connection.close()

    # ---- Messages

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
        if not headers.get(ID):  # an empty one counts as none
            text = f"{subject}\0{sorted(headers.items())}\0".encode()
            digest = blake2b(text + data, digest_size=DIGEST_BYTES)
            self._equal[digest.digest()] += 1
            number = self._equal[digest.digest()]
            headers[ID] = f"{self._prefix}/{digest.hexdigest()}-{number}"
        return Message(subject, data, headers)

    # ---- In the connection's loop

    async def _publish(self, chunk: list[Message], broker: Any) -> None:
        """Return when a stream has acknowledged each message, in a numbered inbox."""
        if self._broker is not broker:
            self._inbox = await Inbox(self._connection.client).open()
            self._broker, self._sent = broker, 0
        first, self._sent = self._sent, self._sent + len(chunk)
        for number, (subject, data, headers) in enumerate(chunk, first):
            reply = f"{self._inbox.name}.{number}"
            try:
                await self._inbox.client.publish(subject, data, reply=reply, headers=headers)
            except (errors.MaxPayloadError, errors.BadSubjectError) as error:
                raise RuntimeError(f"subject `{subject}`: {error}") from None
        missing = set(range(first, self._sent))
        while missing:
            reply = await self._inbox.receive()
            number = int(reply.subject.rpartition(".")[2])
            if number in missing:
                await self._check_stored(chunk[number - first].subject, reply.data)
                missing.remove(number)

    async def _check_stored(self, subject: str, data: bytes) -> None:
        """Raise `RuntimeError` unless a stream reports where it has stored the message."""
        reply = _parse(data)
        if isinstance(reply.get("error"), dict):
            raise RuntimeError(f"subject `{subject}`: {reply['error'].get('description')}")
        if reply.get("stream") and reply.get("seq"):
            return
        if data:
            raise RuntimeError(f"subject `{subject}`: a service responds to it, not only a stream")
        try:
            await self._broker.find_stream_name_by_subject(subject)
        except js_errors.NotFoundError:
            raise RuntimeError(f"no stream takes the subject `{subject}`; create one") from None
        raise errors.NoRespondersError  # the stream's server is starting


def _parse(data: bytes) -> dict[str, Any]:
    try:
        reply = json.loads(data)
    except ValueError:
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


sink = (
    SinkBuilder.stream(FORMAT, create=Publisher)
    .retry(seconds=0)  # `send` repeats single chunks
    .receive_batch(Publisher.send)
    .destroy(Publisher.close)
    .check(check)
    .options(*WRITE)
    .build()
)
