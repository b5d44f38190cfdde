"""Messages of a JetStream consumer, some thousand with one request.

The client's own `fetch` waits for each message with a timer of its own, which makes it three times
as slow; here a callback takes what comes, and one event says that all is there.
"""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

from nats import errors

_STATUS, _REASON = "Status", "Description"  # in the headers of an answer that is no message
_NONE_NOW = ("404", "408")  # none left, or the request has expired
_WRONG = re.compile("400|409 (Exceeded|Consumer is push based)")  # others may pass: a new leader
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

    async def fetch(self, count: int, seconds: float | None = None) -> list[Any]:
        """Up to `count` messages that there are now; or that come, as the first one, in `seconds`.

        Raises the client's `NoRespondersError` when the consumer is gone: it is to be made again;
        `RuntimeError` when it does not take such a request.
        """
        self._found, self._count, self._status = [], count, ""
        self._complete.clear()
        asked: dict[str, Any] = {"batch": count, "no_wait": True}
        if seconds:
            asked["expires"] = int(seconds * 1e9)
        await self._client.publish(self._subject, json.dumps(asked).encode(), reply=self._inbox)
        await self._complete.wait()
        if _WRONG.match(self._status):
            raise RuntimeError(f"consumer `{self._subject}` says: {self._status}")
        if self._status and not self._status.startswith(_NONE_NOW):
            raise errors.NoRespondersError
        found, self._found = self._found, []  # what is sent twice may still come
        return found

    async def _take(self, message: Any) -> None:
        if not message.reply:  # a message has one, to acknowledge it, and may have any header
            headers = message.headers or {}
            self._status = f"{headers.get(_STATUS, '')} {headers.get(_REASON, '')}".strip()
            self._complete.set()
            return
        self._found.append(message)
        if len(self._found) == self._count:
            self._complete.set()
