"""A blocking connection to NATS, opened at the first request and again after an error."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import re
import ssl
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import nats
from nats import errors
from nats.js import errors as js_errors

from tutorial_pkg.builder import OptionValues

Answer = TypeVar("Answer")

CONNECT_SECONDS = 2.0
REQUEST_SECONDS = 10.0  # for one response
IDLE_SECONDS = 60  # after them, the server may have closed the connection: it pings in vain

# Errors of a server that is absent or restarting.
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
    def _connect_command(self) -> bytes:
        """Send no login in plain text if TLS is asked for; the client alone would."""
        server: Any = self._current_server
        tls = self.options.get("tls") or server.uri.scheme == "tls"
        if tls and not self._server_info.get("tls_required"):
            raise PermissionError("the server does not encrypt; correct `url` or `caFile`")
        return super()._connect_command()


class NatsClient:
    """An event loop with one client in it. The loop runs during requests only."""

    def __init__(self, options: OptionValues) -> None:
        self._options = options
        self._runner = asyncio.Runner()
        atexit.register(self._runner.close)  # without `close`, asyncio warns of open tasks
        self.client: Any = None
        self._broker: Any = None
        self._denied = ""
        self._idle_at = 0.0

    def ask(self, question: Callable[[Any], Awaitable[Answer]]) -> Answer:
        """Return the result of `question(broker)`. After an error the connection is a new one.

        Raises:
            TimeoutError: the server does not respond; try again.
            PermissionError: the server refuses the login, or what it may do.
        """
        if time.monotonic() > self._idle_at:
            self._runner.run(self._disconnect())
        try:
            return self._runner.run(self._once(question))
        except PermissionError:
            raise
        except AWAY as error:
            self._runner.run(self._disconnect())  # half a response must not be in the next one
            reason = str(error) or type(error).__name__
            text = f"NATS at {self._options.url} does not respond: {reason}"
            raise TimeoutError(text) from None
        finally:
            self._idle_at = time.monotonic() + IDLE_SECONDS

    def close(self) -> None:
        self._runner.run(self._disconnect())
        self._runner.close()
        atexit.unregister(self._runner.close)

    # ---- In the loop

    async def _once(self, question: Callable[[Any], Awaitable[Answer]]) -> Answer:
        seconds = min(REQUEST_SECONDS, self._options.timeoutSeconds)
        try:
            async with asyncio.timeout(seconds) as self._deadline:
                if self.client is None or self.client.is_closed:
                    await self._connect()
                answer = asyncio.ensure_future(question(self._broker))
                try:
                    return await asyncio.shield(answer)  # the client may ignore a cancellation
                finally:
                    answer.cancel()
        finally:
            if self._denied:  # the server reports that, but not as a response to the request
                raise PermissionError(f"NATS at {self._options.url} refused: {self._denied}")

    async def _connect(self) -> None:
        self._denied = ""
        client = _Client()

        async def note_loss() -> None:
            if self.client is client and not self._deadline.expired():
                self._deadline.reschedule(0)  # the request would wait in vain

        try:
            await client.connect(**self._settings(), closed_cb=note_loss)
        except (errors.Error, ValueError) as error:
            text = str(error)
            if "authorization" in text.lower():
                raise PermissionError(f"NATS at {self._options.url} refused: {error}") from None
            if "invalid connect url" in text:  # its cause quotes parts of the URL
                raise ValueError(
                    "format `nats`: option `url` is not an address of servers (not shown here, as "
                    "it may hold a password); expected `nats://host:4222`. Use the options `user` "
                    "and `password` for a login"
                ) from None
            if re.search("expecting INFO|info message|to unpack", text):  # an interrupted greeting
                raise errors.ConnectionClosedError from None
            raise
        self.client = client
        self._broker = client.jetstream(timeout=REQUEST_SECONDS)

    async def _note_error(self, error: Exception) -> None:
        if "permissions violation" in str(error):
            self._denied = str(error)

    async def _disconnect(self) -> None:
        client, self.client = self.client, None
        if client is not None:
            with contextlib.suppress(Exception):  # of a server that is gone
                async with asyncio.timeout(CONNECT_SECONDS):
                    await client.close()

    def _settings(self) -> dict[str, Any]:
        options, logins = self._options, ("user", "password", "token")
        return {
            "servers": options.url.reveal().split(","),
            "connect_timeout": CONNECT_SECONDS,
            "allow_reconnect": False,  # `ask` reconnects
            "max_reconnect_attempts": 1,  # otherwise the client tries for two minutes
            "error_cb": self._note_error,
            "user_credentials": options.credentials,
            "tls": options.caFile and ssl.create_default_context(cafile=options.caFile),
            **{name: options[name] and options[name].reveal() for name in logins},
        }


async def stream_info(broker: Any, name: str) -> Any:
    """Return what the server knows of a stream. Raises `LookupError` if it does not exist."""
    try:
        return await broker.stream_info(name)
    except js_errors.NotFoundError:
        raise LookupError(f"there is no stream `{name}`; create it, or correct `stream`") from None
