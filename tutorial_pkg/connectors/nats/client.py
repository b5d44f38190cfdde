"""A blocking connection to NATS, opened at the first request and again after an error."""

from __future__ import annotations

import asyncio
import contextlib
import re
import ssl
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import nats
from nats import errors
from nats.js import errors as js_errors

from tutorial_pkg.builder import OptionValues

Answer = TypeVar("Answer")

CONNECT_SECONDS = 2.0
REQUEST_SECONDS = 10.0  # for one response

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
    """An event loop in a thread, with one client in it."""

    def __init__(self, options: OptionValues) -> None:
        self._options = options
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="nats", daemon=True)
        self._thread.start()
        self.client: Any = None
        self._broker: Any = None
        self._denied = ""

    def ask(self, question: Callable[[Any], Awaitable[Answer]]) -> Answer:
        """Return the result of `question(broker)`. After an error the connection is a new one.

        Raises:
            TimeoutError: the server does not respond; try again.
            PermissionError: the server refuses the login, or what it may do.
        """
        try:
            return self._run(self._once(question))
        except PermissionError:
            raise
        except AWAY as error:
            self._run(self._disconnect())  # half a response must not become part of the next
            reason = str(error) or type(error).__name__
            text = f"NATS at {self._options.url} does not respond: {reason}"
            raise TimeoutError(text) from None

    def close(self) -> None:
        if not self._loop.is_closed():
            self._run(self._disconnect())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    # ---- In the loop

    def _run(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _once(self, question: Callable[[Any], Awaitable[Answer]]) -> Answer:
        async with asyncio.timeout(min(REQUEST_SECONDS, self._options.timeoutSeconds)):
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
                if self._denied:  # the server reports that, but not as a response to the request
                    raise PermissionError(f"NATS at {self._options.url} refused: {self._denied}")

    async def _connect(self) -> None:
        self._lost = asyncio.Event()
        self._denied = ""
        client = _Client()
        try:
            await client.connect(**self._settings(), closed_cb=self._note_loss)
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

    async def _note_loss(self) -> None:
        self._lost.set()

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
        options = self._options
        secrets = {name: options[name] for name in ("user", "password", "token") if options[name]}
        files = {
            "user_credentials": options.credentials,
            "tls": options.caFile and ssl.create_default_context(cafile=options.caFile),
        }
        return {
            "servers": options.url.reveal().split(","),
            "connect_timeout": CONNECT_SECONDS,
            "allow_reconnect": False,  # `ask` reconnects
            "max_reconnect_attempts": 1,  # otherwise the client tries for two minutes
            "error_cb": self._note_error,
            **{name: value for name, value in files.items() if value},
            **{name: value.reveal() for name, value in secrets.items()},
        }


async def stream_info(broker: Any, name: str) -> Any:
    """Return what the server knows of a stream. Raises `LookupError` if it does not exist."""
    try:
        return await broker.stream_info(name)
    except js_errors.NotFoundError:
        raise LookupError(f"there is no stream `{name}`; create it, or correct `stream`") from None
