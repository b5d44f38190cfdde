"""Messages to JetStream, a chunk at a time, and the stream's answers to all of them.

The client's own `publish_async` keeps a future and a lock for each message; here one subscription
takes the answers, and one event says that there are some.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from nats import errors
from nats.js import errors as js_errors

SILENT_SECONDS = 1.0  # then the stream is asked whether it answers at all


class Message(NamedTuple):
    """What is published."""

    subject: str
    data: bytes
    headers: dict[str, str]


class Publishing:
    """For one connection. A message's answer comes to the inbox with its number.

    No number comes twice: an answer may be late, and there may be several to one message.
    """

    def __init__(self, client: Any, broker: Any) -> None:
        self._client, self._broker, self._inbox = client, broker, client.new_inbox()
        self._answers: list[Any] = []
        self._sent = 0
        self._heard = asyncio.Event()

    async def start(self) -> None:
        limits = {"pending_msgs_limit": -1, "pending_bytes_limit": -1}
        await self._client.subscribe(f"{self._inbox}.*", cb=self._note, **limits)

    async def send(self, chunk: Sequence[Message]) -> None:
        """Return when a stream has acknowledged each. Raises `RuntimeError` with the subject.

        Whoever listens to a subject may answer, too; only a stream's acknowledgement counts.
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
            await self._hear(chunk[min(missing)].subject)
            answers, self._answers = self._answers, []
            for answer in answers:
                number = int(answer.subject.rpartition(".")[2]) - first
                if number < 0:  # late
                    continue
                if is_acknowledgement(answer.data):
                    missing.discard(number)
                else:
                    await self._explain(chunk[number].subject, answer.data)

    async def _hear(self, subject: str) -> None:
        """Return when there are answers. Raises `RuntimeError` for a stream that gives none."""
        while not self._heard.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._heard.wait(), SILENT_SECONDS)
                break
            with contextlib.suppress(js_errors.NotFoundError):
                name = await self._broker.find_stream_name_by_subject(subject)
                if (await self._broker.stream_info(name)).config.no_ack:
                    raise RuntimeError(
                        f"stream `{name}` takes the subject `{subject}`, and acknowledges nothing "
                        "(`no_ack`), so nobody knows which rows it has; write to another one"
                    )
        self._heard.clear()

    async def _note(self, answer: Any) -> None:
        self._answers.append(answer)
        self._heard.set()

    async def _explain(self, subject: str, answer: bytes) -> None:
        """Raise why. Without a word nobody listens: there is no stream, or its server starts."""
        if refusal := error_in(answer):
            raise RuntimeError(f"subject `{subject}`: {refusal}")
        try:
            await self._broker.find_stream_name_by_subject(subject)
        except js_errors.NotFoundError:
            raise RuntimeError(f"no stream takes the subject `{subject}`; create one") from None
        if not answer:
            raise errors.NoRespondersError


def is_acknowledgement(answer: bytes) -> bool:
    """Whether a stream says where it has stored the message."""
    found = _read(answer)
    stream, sequence = found.get("stream"), found.get("seq")
    return bool(stream) and isinstance(sequence, int) and sequence > 0 and "error" not in found


def error_in(answer: bytes) -> str | None:
    """Why a stream has refused the message."""
    error = _read(answer).get("error")
    return error.get("description") if isinstance(error, dict) else None


def _read(answer: bytes) -> dict[str, Any]:
    try:
        found = json.loads(answer)
    except ValueError:  # no JSON, so not of a stream
        return {}
    return found if isinstance(found, dict) else {}
