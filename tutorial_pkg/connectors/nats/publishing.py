"""Messages to JetStream, a chunk at a time, with the stream's acknowledgements of all of them.

The client's own `publish_async` keeps a future and a lock per message. Here one subscription
receives the acknowledgements.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from nats import errors
from nats.js import errors as js_errors

SILENT_SECONDS = 1.0  # after which the stream's settings are checked


class Message(NamedTuple):
    subject: str
    data: bytes
    headers: dict[str, str]


class Publishing:
    """Publishes over one connection. The reply to each message goes to a numbered inbox."""

    def __init__(self, client: Any, broker: Any) -> None:
        self._client, self._broker, self._inbox = client, broker, client.new_inbox()
        self._replies: list[Any] = []
        self._sent = 0
        self._received = asyncio.Event()

    async def start(self) -> None:
        limits = {"pending_msgs_limit": -1, "pending_bytes_limit": -1}
        await self._client.subscribe(f"{self._inbox}.*", cb=self._receive, **limits)

    async def send(self, chunk: Sequence[Message]) -> None:
        """Return when a stream has acknowledged each message; other replies are ignored.

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
            await self._await_replies(chunk[min(missing)].subject)
            replies, self._replies = self._replies, []
            for reply in replies:
                number = int(reply.subject.rpartition(".")[2]) - first
                if number < 0:  # late
                    continue
                if is_acknowledgement(reply.data):
                    missing.discard(number)
                else:
                    await self._explain(chunk[number].subject, reply.data)

    async def _await_replies(self, subject: str) -> None:
        """Raises `RuntimeError` for a stream that never acknowledges."""
        while not self._received.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._received.wait(), SILENT_SECONDS)
                break
            with contextlib.suppress(js_errors.NotFoundError):
                name = await self._broker.find_stream_name_by_subject(subject)
                if (await self._broker.stream_info(name)).config.no_ack:
                    raise RuntimeError(
                        f"stream `{name}` takes the subject `{subject}` without acknowledgements "
                        "(`no_ack`), so it could lose rows; write to a different stream"
                    )
        self._received.clear()

    async def _receive(self, reply: Any) -> None:
        self._replies.append(reply)
        self._received.set()

    async def _explain(self, subject: str, data: bytes) -> None:
        """Raise the reason of a reply that is no acknowledgement."""
        if refusal := error_in(data):
            raise RuntimeError(f"subject `{subject}`: {refusal}")
        try:
            await self._broker.find_stream_name_by_subject(subject)
        except js_errors.NotFoundError:
            raise RuntimeError(f"no stream takes the subject `{subject}`; create one") from None
        if not data:  # the stream's server is starting
            raise errors.NoRespondersError


def is_acknowledgement(data: bytes) -> bool:
    """Return whether a stream reports where it has stored the message."""
    reply = _parse(data)
    stream, sequence = reply.get("stream"), reply.get("seq")
    return bool(stream) and isinstance(sequence, int) and sequence > 0 and "error" not in reply


def error_in(data: bytes) -> str | None:
    """Return why a stream has refused the message."""
    error = _parse(data).get("error")
    return error.get("description") if isinstance(error, dict) else None


def _parse(data: bytes) -> dict[str, Any]:
    try:
        reply = json.loads(data)
    except (ValueError, RecursionError):  # from something other than a stream
        return {}
    return reply if isinstance(reply, dict) else {}
