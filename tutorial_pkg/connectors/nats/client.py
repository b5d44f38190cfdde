"""A connection to NATS from code that waits: opened when used, opened anew when it broke."""

from __future__ import annotations

import asyncio
import contextlib
import re
import ssl
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import nats
from nats import errors
from nats.js import errors as js_errors

from tutorial_pkg.builder import OptionValues
from tutorial_pkg.core.pauses import patiently

Answer = TypeVar("Answer")

CONNECT_SECONDS = 2.0
ASK_SECONDS = 10.0  # for one answer at most, before it is asked for again
RETRY_SECONDS = 0.2


# Errors of a server that is being restarted, or is not there.
AWAY = (
    OSError,
    TimeoutError,
    errors.TimeoutError,
    errors.NoServersError,
    errors.NoRespondersError,
    errors.ConnectionClosedError,
    errors.StaleConnectionError,
    js_errors.ServiceUnavailableError,
)


class _Client(nats.NATS):
    """The library's own stops to read, without a word, at a subject whose bytes are not UTF-8."""

    def _build_message(self, sid: int, subject: bytes, *rest: Any) -> Any:
        return super()._build_message(sid, subject.decode(errors="replace").encode(), *rest)


class NatsClient:
    """An event loop in a thread, and in it a client, while there is one.

    `ask` waits for a server that is away, `seconds` at most: option `timeoutSeconds`.
    """

    def __init__(self, options: OptionValues) -> None:
        self._options = options
        self._seconds = float(options.timeoutSeconds)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="nats", daemon=True)
        self._thread.start()
        self.client: Any = None
        self._broker: Any = None
        self._denied = deque[str](maxlen=10)  # what the login may not do, as the server says

    def ask(self, question: Callable[[Any], Awaitable[Answer]]) -> Answer:
        """The answer of `question(broker)`, asked again on a new connection when one breaks.

        Raises `TimeoutError` when the server is away for too long, `PermissionError` when it
        refuses the login, and what else the question raises.
        """
        try:
            return patiently(lambda: self._run(self._once(question)), self._may_pass, self._seconds)
        except PermissionError:
            raise
        except AWAY as error:
            self.raise_denied()
            raise TimeoutError(
                f"NATS at {self._options.url} has not answered for {self._seconds:g} s "
                f"(option `timeoutSeconds`): {str(error) or type(error).__name__}"
            ) from None

    def raise_denied(self, subject: str = "") -> None:
        """Raise `PermissionError` if the login may not publish to such a subject, or to any.

        The server says so and goes on, without an answer to what was asked.
        """
        for text in self._denied:
            if subject.lower() in text:  # which the client has put into lower case
                raise PermissionError(f"NATS at {self._options.url} refused: {text}")

    def _may_pass(self, error: Exception) -> bool:
        if not isinstance(error, AWAY) or isinstance(error, PermissionError):
            return False
        self._run(self._disconnect())  # half an answer must not become part of the next
        return True

    def close(self) -> None:
        """Disconnect and end the thread; once more does no harm."""
        if self._loop.is_closed():
            return
        self._run(self._disconnect())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    # ---- In the loop

    def _run(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _once(self, question: Callable[[Any], Awaitable[Answer]]) -> Answer:
        async with asyncio.timeout(min(ASK_SECONDS, self._seconds)):
            if self.client is None or self.client.is_closed:
                await self._connect()
            answer = asyncio.ensure_future(question(self._broker))
            lost = asyncio.ensure_future(self._lost.wait())
            try:
                await asyncio.wait({answer, lost}, return_when=asyncio.FIRST_COMPLETED)
                if not answer.done():
                    raise errors.ConnectionClosedError
                return answer.result()
            finally:
                answer.cancel()
                lost.cancel()

    async def _connect(self) -> None:
        self._lost = asyncio.Event()
        self._denied.clear()
        try:
            client = _Client()
            await client.connect(**self._settings(), closed_cb=self._note_loss)
            self.client = client
        except (errors.Error, ValueError) as error:
            if "authorization" in str(error).lower():
                raise PermissionError(f"NATS at {self._options.url} refused: {error}") from None
            if "invalid connect url" in str(error):  # its cause quotes parts of it
                raise ValueError(
                    "format `nats`: option `url` is not an address of servers (it is not shown "
                    "here, as it may hold a password); it looks like `nats://host:4222`: better "
                    "give `user` and `password` by themselves"
                ) from None
            if re.search("expecting INFO|info message|to unpack", str(error)):  # it was cut
                raise errors.ConnectionClosedError from None
            raise
        self._broker = self.client.jetstream(timeout=ASK_SECONDS)

    async def _note_loss(self) -> None:
        self._lost.set()

    async def _note_error(self, error: Exception) -> None:
        """What else the client tells, of a connection that broke, is raised where it is asked."""
        if "permissions violation" in str(error):
            self._denied.append(str(error))

    async def _disconnect(self) -> None:
        client, self.client = self.client, None
        if client is not None:
            with contextlib.suppress(Exception):  # a server that is gone needs no goodbye
                async with asyncio.timeout(CONNECT_SECONDS):
                    await client.close()

    def _settings(self) -> dict[str, Any]:
        options = self._options
        secrets = {name: options[name] for name in ("user", "password", "token") if options[name]}
        given = {
            "user_credentials": options.credentials,
            "tls": options.caFile and ssl.create_default_context(cafile=options.caFile),
        }
        return {
            "servers": options.url.reveal().split(","),
            "connect_timeout": CONNECT_SECONDS,
            "allow_reconnect": False,  # `ask` does it, and with a bound
            "max_reconnect_attempts": 1,  # else the client tries for two minutes by itself
            "reconnect_time_wait": RETRY_SECONDS,
            "error_cb": self._note_error,
            **{name: value for name, value in given.items() if value},
            **{name: value.reveal() for name, value in secrets.items()},
        }


async def stream_info(broker: Any, name: str) -> Any:
    """What there is of a stream. Raises `LookupError` if it is not there."""
    try:
        return await broker.stream_info(name)
    except js_errors.NotFoundError:
        raise LookupError(f"there is no stream `{name}`; create it, or correct `stream`") from None
