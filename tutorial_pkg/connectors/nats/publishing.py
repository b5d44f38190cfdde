"""Messages to JetStream, a chunk at a time, and the stream's answers to all of them.

The client's own `publish_async` keeps a future and a lock for each message; here one subscription
takes the answers, and one event says that all are there.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from nats import errors


class Message(NamedTuple):
    """What is published."""

    subject: str
    data: bytes
    headers: dict[str, str]


class Publishing:
    """For one connection. A message's answer comes to the inbox with its number."""

    def __init__(self, client: Any) -> None:
        self._client, self._inbox = client, client.new_inbox()
        self._missing: set[str] = set()
        self._refused: dict[str, str | None] = {}  # by number, why; None where nobody answered
        self._complete = asyncio.Event()

    async def start(self) -> None:
        limits = {"pending_msgs_limit": -1, "pending_bytes_limit": -1}
        await self._client.subscribe(f"{self._inbox}.*", cb=self._answered, **limits)

    async def send(self, chunk: Sequence[Message]) -> tuple[str, str | None] | None:
        """Return when each has an answer: None, or the first refused subject, and the reason."""
        self._missing = {str(number) for number in range(len(chunk))}
        self._refused = {}
        self._complete.clear()
        for number, (subject, data, headers) in enumerate(chunk):
            reply = f"{self._inbox}.{number}"
            try:
                await self._client.publish(subject, data, reply=reply, headers=headers)
            except (errors.MaxPayloadError, errors.BadSubjectError, errors.BadHeaderError) as error:
                return subject, str(error)
        await self._complete.wait()
        first = next(iter(self._refused.items()), None)
        return (chunk[int(first[0])].subject, first[1]) if first else None

    async def _answered(self, answer: Any) -> None:
        number = answer.subject.rpartition(".")[2]
        if not answer.data:  # a status in the headers: no stream listens there
            self._refused[number] = None
        elif b'"error"' in answer.data:
            self._refused[number] = json.loads(answer.data)["error"]["description"]
        self._missing.discard(number)
        if not self._missing:
            self._complete.set()
