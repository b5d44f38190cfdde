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
from tutorial_pkg.core.waiting import Tries

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
        self._equal: Counter[str] = Counter()

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
        """Yield the rows with their ids, unless a row has one; an empty one counts as none."""
        has_headers = "headers" in batch.schema.names
        headers = batch.column("headers").to_pylist() if has_headers else repeat(())
        data = batch.column("data").cast(pa.binary()).to_pylist()
        subjects = places(batch, "subject", self._subject)
        for subject, value, pairs in zip(subjects, data, headers, strict=False):
            if subject.startswith(SERVERS_OWN):
                raise ValueError(f"subject `{subject}` is for requests to the server; use another")
            message = Message(subject, value or b"", _headers(pairs or ()))
            message.headers[ID] = message.headers.get(ID) or self._id_of(message)
            yield message

    def _id_of(self, message: Message) -> str:
        """Make an id of the row's values: a repeated task may get its rows in a different order.

        Equal rows are numbered.
        """
        text = f"{message.subject}\0{sorted(message.headers.items())}\0".encode()
        digest = blake2b(text + message.data, digest_size=DIGEST_BYTES).hexdigest()
        self._equal[digest] += 1
        return f"{self._prefix}/{digest}-{self._equal[digest]}"

    # ---- In the connection's loop

    async def _publish(self, chunk: list[Message], broker: Any) -> None:
        """Return when a stream has acknowledged each message, to its number in an inbox."""
        client = self._connection.client
        inbox = await Inbox(client).open()
        for number, (subject, data, headers) in enumerate(chunk):
            reply = f"{inbox.name}.{number}"
            try:
                await client.publish(subject, data, reply=reply, headers=headers)
            except (errors.MaxPayloadError, errors.BadSubjectError) as error:
                raise RuntimeError(f"subject `{subject}`: {error}") from None
        missing = set(range(len(chunk)))
        while missing:
            response = await inbox.receive()
            number = int(response.subject.rpartition(".")[2])
            if number in missing:
                await self._check_stored(broker, chunk[number].subject, response.data)
                missing.remove(number)
        await inbox.close()

    async def _check_stored(self, broker: Any, subject: str, data: bytes) -> None:
        """Raise `RuntimeError` unless a stream reports where it has stored the message."""
        reply = _parse(data)
        if isinstance(reply.get("error"), dict):
            raise RuntimeError(f"subject `{subject}`: {reply['error'].get('description')}")
        if reply.get("stream") and reply.get("seq"):
            return
        if data:
            raise RuntimeError(f"subject `{subject}`: a service responds to it, not only a stream")
        try:
            await broker.find_stream_name_by_subject(subject)
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
