"""Messages of a JetStream consumer, some thousand with one request.

The client's own `fetch` waits for each message with a timer of its own, which makes it three times
as slow; here a callback takes what comes, and one event says that all is there.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from nats import errors

_STATUS = "Status"  # in the header of an answer that is no message
_NONE_NOW = ("404", "408")  # none left, or the request has expired
_NEXT = "$JS.API.CONSUMER.MSG.NEXT"


class Pull:
    """A subscription through which a consumer's messages come when they are asked for."""

    def __init__(self, client: Any, stream: str, consumer: str) -> None:
        self._client, self._subject = client, f"{_NEXT}.{stream}.{consumer}"
        self._inbox = client.new_inbox()
        self._found: list[Any] = []
        self._count = 0
        self._status = ""
        self._complete = asyncio.Event()

    async def start(self) -> None:
        """What is under way is bounded by what is asked for, so the client need not count it."""
        limits = {"pending_msgs_limit": -1, "pending_bytes_limit": -1}
        await self._client.subscribe(self._inbox, cb=self._take, **limits)

    async def fetch(self, count: int) -> list[Any]:
        """Up to `count` messages that there are now.

        Raises the client's `NoRespondersError` when the consumer is gone: it is to be made again.
        """
        self._found, self._count, self._status = [], count, ""
        self._complete.clear()
        request = json.dumps({"batch": count, "no_wait": True}).encode()
        await self._client.publish(self._subject, request, reply=self._inbox)
        await self._complete.wait()
        if self._status and self._status not in _NONE_NOW:
            raise errors.NoRespondersError
        return self._found

    async def _take(self, message: Any) -> None:
        if not message.reply:  # a message has one, to acknowledge it, and may have any header
            self._status = (message.headers or {}).get(_STATUS, "")
            self._complete.set()
            return
        self._found.append(message)
        if len(self._found) == self._count:
            self._complete.set()
