"""A connection to NATS from code that waits: opened when used, opened anew when it broke."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, NoReturn, TypeVar

from tutorial_pkg.core.options import OptionValues

Answer = TypeVar("Answer")

CONNECT_SECONDS = 2.0
ASK_SECONDS = 10.0  # for one answer at most, before it is asked for again
RETRY_SECONDS = 0.2


def library() -> Any:
    """The package `nats`. Raises `ImportError` that says how to get it."""
    try:
        import nats
        import nats.errors
        import nats.js.api
        import nats.js.errors
    except ImportError as error:
        raise ImportError(
            "format `nats` needs its client: pip install 'tutorial_pkg[nats]'"
        ) from error
    return nats


class Connection:
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

    def ask(self, question: Callable[[Any], Awaitable[Answer]]) -> Answer:
        """The answer of `question(broker)`, asked again on a new connection when one breaks.

        Raises `TimeoutError` when the server is away for too long, `PermissionError` when it lets
        us not in, and what else the question raises.
        """
        deadline = time.monotonic() + self._seconds
        while True:
            try:
                return self._run(self._once(question))
            except PermissionError:
                raise
            except _away() as error:
                self._run(self._disconnect())  # half an answer must not become part of the next
                if time.monotonic() >= deadline:
                    self._give_up(error)
            time.sleep(RETRY_SECONDS)

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
                    raise library().errors.ConnectionClosedError
                return answer.result()
            finally:
                answer.cancel()
                lost.cancel()

    async def _connect(self) -> None:
        nats, self._lost = library(), asyncio.Event()
        try:
            self.client = await nats.connect(**self._settings(), closed_cb=self._note_loss)
        except nats.errors.Error as error:
            if "authorization" in str(error).lower():
                raise PermissionError(f"NATS at {self._options.url} refused: {error}") from None
            if "invalid connect url" in str(error):  # its cause quotes parts of it
                raise ValueError(
                    "format `nats`: option `url` is no address of servers (it is not shown here, "
                    "as it may hold a password); it looks like `nats://host:4222`: better give "
                    "`user` and `password` by themselves"
                ) from None
            raise
        self._broker = self.client.jetstream(timeout=ASK_SECONDS)

    async def _note_loss(self) -> None:
        self._lost.set()

    async def _disconnect(self) -> None:
        client, self.client = self.client, None
        if client is not None:
            with contextlib.suppress(Exception):  # a server that is gone needs no goodbye
                async with asyncio.timeout(CONNECT_SECONDS):
                    await client.close()

    def _settings(self) -> dict[str, Any]:
        options = self._options
        given = {
            "user": options.user and options.user.reveal(),
            "password": options.password and options.password.reveal(),
            "token": options.token and options.token.reveal(),
            "user_credentials": options.credentials,
            "tls": options.caFile and ssl.create_default_context(cafile=options.caFile),
        }
        return {
            "servers": options.url.reveal().split(","),
            "connect_timeout": CONNECT_SECONDS,
            "allow_reconnect": False,  # `ask` does it, and with a bound
            "max_reconnect_attempts": 1,  # else the client tries for two minutes by itself
            "reconnect_time_wait": RETRY_SECONDS,
            "error_cb": _ignore,  # what matters is raised where it is asked
            **{name: value for name, value in given.items() if value},
        }

    def _give_up(self, error: BaseException) -> NoReturn:
        raise TimeoutError(
            f"NATS at {self._options.url} has not answered for {self._seconds:g} s "
            f"(option `timeoutSeconds`): {str(error) or type(error).__name__}"
        ) from None


async def _ignore(error: Exception) -> None:
    """What the client tells of a connection that broke; without this it prints a stack trace."""


def _away() -> tuple[type[BaseException], ...]:
    """Errors of a server that is being restarted, or is not there."""
    errors, stream_errors = library().errors, library().js.errors
    return (
        OSError,
        TimeoutError,
        errors.TimeoutError,
        errors.NoServersError,
        errors.NoRespondersError,
        errors.ConnectionClosedError,
        errors.StaleConnectionError,
        stream_errors.ServiceUnavailableError,
    )
