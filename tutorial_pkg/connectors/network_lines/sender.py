"""A sender's connection, and lines sent over it, all at once or as if they happened now."""

from __future__ import annotations

import errno
import math
import socket
import ssl
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Self, TypeVar

from tutorial_pkg.connectors.network_lines.protocol import DROPPED, REFUSED, SAYS

LINES_AT_ONCE = 10_000
SENDS_PER_SECOND = 20
QUOTED = 120
CONNECT_SECONDS = 10.0
SILENT_SECONDS = 300.0  # longest wait for a receiver that neither reads nor replies
WAIT_SECONDS = 1.0  # between two calls of `on_wait`
LOOK_SECONDS = 0.1
REPLY_BYTES = 64 * 1024
_UNKNOWN = "lines that the receiver had not written to its log by then are lost"
_NOTHING_YET = (BlockingIOError, TimeoutError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
_GONE = (ssl.SSLEOFError, ssl.SSLSyscallError, ssl.SSLZeroReturnError)
_TLS_ALERT = b"\x15\x03"  # what a server that expects TLS replies to anything else

Result = TypeVar("Result")


class SenderRefusedError(ConnectionError):
    """The receiver refuses this sender, or cannot be trusted; the text says why."""


class LinesDroppedError(ConnectionError):
    """The receiver dropped lines; the text says how many, and why."""


def send_lines(
    host: str,
    port: int,
    lines: Iterable[str | bytes],
    rate: float | None = None,
    tls: ssl.SSLContext | None = None,
    timeout: float | None = SILENT_SECONDS,
) -> int:
    """Send `lines`, each ended by a newline, and return their number.

    It returns when the receiver has closed its end, which `network_lines` does once all lines are
    on disk. Without TLS any program can do that: anything that reads all lines and closes counts
    as a receiver.

    Args:
        rate: lines per second; None is as fast as the receiver reads.
        tls: for a receiver that expects TLS; make it with `client_tls`.
        timeout: seconds to wait for a receiver that neither reads nor replies, such as one with a
            full backlog; None is forever.

    Raises:
        ConnectionRefusedError: nothing listens there.
        SenderRefusedError: the receiver refuses this sender, one side does not trust the other's
            certificate, or the reply is not one of `network_lines`.
        LinesDroppedError: `network_lines` dropped lines, and has the others on disk.
        ConnectionError: the connection broke. The two errors above are subclasses.
        TimeoutError: nothing happened for `timeout` seconds.
        TypeError: something is not a line.
        ValueError: a line has a newline inside, or `rate` is invalid.
    """
    if isinstance(lines, str | bytes | bytearray):
        raise TypeError(
            f"`lines` must be an iterable of lines, got a {type(lines).__name__}, "
            f"{lines[:QUOTED]!r}; give [line] for one line, and text.splitlines() for a text"
        )
    if rate is not None and not rate > 0:
        raise ValueError(f"`rate` must be more than 0 lines per second, or None, got {rate!r}")
    remaining, at_once, sent = iter(lines), lines_at_once(LINES_AT_ONCE, rate), 0
    with Channel((host, port), tls, timeout) as channel:
        started = time.monotonic()
        try:
            while group := list(islice(remaining, at_once)):
                wait_for_turn(started, sent, rate)
                channel.send(_joined(group))
                sent += len(group)
            dropped = finish(channel)
        except SenderRefusedError:
            raise
        except TimeoutError as error:
            raise TimeoutError(f"{error}; {_UNKNOWN}") from None
        except ConnectionError as error:
            text = f"the connection to {host}:{port} broke after about {sent} lines; {_UNKNOWN}"
            raise ConnectionError(text) from error
    if dropped:
        raise LinesDroppedError(
            f"{host}:{port} dropped some of {sent} lines ({dropped}); the others are in its log. "
            "The query's option `maxLineBytes` says how long a line may be"
        )
    return sent


def finish(channel: Channel) -> str:
    """End this side, wait until the receiver closes, and return what it says about lost lines."""
    reply = channel.receive(0)
    if reply == b"":  # a close confirms only lines before this side's end
        raise ConnectionResetError("the receiver has ended before the sender")
    reply = reply or b""
    raise_if_refused(reply)
    channel.end()
    try:
        while more := channel.wait():
            reply += more
            raise_if_refused(reply)
    except ConnectionResetError:
        if not reply.startswith(DROPPED.encode()):
            raise
    return reply.decode().removeprefix(DROPPED).strip()


def lines_at_once(most: int, rate: float | None) -> int:
    """Return how many lines to send together."""
    return most if rate is None else min(most, max(1, int(rate / SENDS_PER_SECOND)))


def wait_for_turn(started: float, sent: int, rate: float | None) -> None:
    """Return when it is time for the next lines, after those that were sent since `started`."""
    if rate is not None:
        time.sleep(max(0.0, started + sent / rate - time.monotonic()))


def _joined(group: list[str | bytes]) -> bytes:
    data = b"".join(map(_ended, group))
    if data.count(b"\n") != len(group):
        inside = next(line for line in group if _ended(line).count(b"\n") > 1)
        raise ValueError(f"a line cannot have a newline inside, got {inside[:QUOTED]!r}")
    return data


def _ended(line: str | bytes) -> bytes:
    """Return the line's bytes with a newline at their end."""
    data = line.encode() if isinstance(line, str) else line
    if not isinstance(data, bytes | bytearray):
        raise TypeError(f"a line must be str or bytes, got {data!r:.{QUOTED}}")
    return data if data.endswith(b"\n") else data + b"\n"


# ---- One connection ------------------------------------------------------------------------------


class Channel:
    """A connection to a receiver.

    While the receiver is slow, `on_wait` is called about once a second. After `patience` seconds in
    which it reads nothing and replies nothing, a wait ends with a `TimeoutError`. Raises
    `SenderRefusedError`, and `ConnectionError` for a connection that cannot be made or that broke.
    """

    def __init__(
        self,
        address: tuple[str, int],
        tls: ssl.SSLContext | None = None,
        patience: float | None = SILENT_SECONDS,
        on_wait: Callable[[], object] = lambda: None,
    ) -> None:
        self.where = f"{address[0]}:{address[1]}"
        self.patience = math.inf if patience is None else patience
        self._on_wait = on_wait
        self._socket = _connect(address, tls)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def send(self, data: bytes) -> None:
        """Send `data`. If the connection breaks, the error says why, if the receiver said so."""
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[self._patiently(partial(self._socket.send, rest)) :]
        except ConnectionResetError:
            with suppress(ConnectionResetError):
                self.take(self.receive(LOOK_SECONDS) or b"")
            raise

    def receive(self, seconds: float) -> bytes | None:
        """Return what the receiver replies, nothing at its end; None after so many seconds."""
        try:
            return self._try(seconds, self._receive)
        except TimeoutError:
            return None

    def wait(self) -> bytes:
        """Return the next part of the reply, nothing at its end."""
        has_ended = isinstance(self._socket, ssl.SSLSocket) and not self._socket.version()
        try:
            return self._patiently(self._receive)
        except ConnectionResetError:
            if has_ended:  # `unwrap` has read an alert, and hides it
                text = "the receiver does not accept this sender's certificate; its status says why"
                raise SenderRefusedError(text) from None
            raise

    def take(self, reply: bytes) -> None:
        """Take in a part of the reply. Raises `SenderRefusedError`."""
        raise_if_refused(reply)

    def end(self) -> None:
        """Announce that nothing more comes."""
        self._patiently(self._end)

    def _receive(self) -> bytes:
        try:
            return self._socket.recv(REPLY_BYTES)
        except ssl.SSLZeroReturnError:  # both sides have ended
            return b""

    def _end(self) -> None:
        if not isinstance(self._socket, ssl.SSLSocket):
            self._socket.shutdown(socket.SHUT_WR)
            return
        self._socket.settimeout(0)  # otherwise `unwrap` would wait for the other side's end
        try:
            self._socket.unwrap()
        except ssl.SSLWantReadError:
            return
        except ssl.SSLWantWriteError:  # the buffer is full
            time.sleep(LOOK_SECONDS)
            raise

    def _patiently(self, operation: Callable[[], Result]) -> Result:
        """Return what a socket operation returns; repeat it while the receiver is slow."""
        until = time.monotonic() + self.patience
        while True:
            try:
                return self._try(min(WAIT_SECONDS, self.patience / 3), operation)
            except TimeoutError:
                self._on_wait()
            if time.monotonic() > until:
                text = f"{self.where} has read nothing and replied nothing for {self.patience:g} s"
                raise TimeoutError(text)

    def _try(self, seconds: float, operation: Callable[[], Result]) -> Result:
        """Return what a socket operation returns. Raises `TimeoutError`, `ConnectionError`."""
        self._socket.settimeout(seconds)
        try:
            return operation()
        except OSError as error:
            is_slow = isinstance(error, _NOTHING_YET) and error.errno != errno.ETIMEDOUT
            raise (TimeoutError() if is_slow else _broken(self.where, error)) from None


def _connect(address: tuple[str, int], tls: ssl.SSLContext | None) -> socket.socket:
    host, port = address
    try:
        connected = socket.create_connection(address, timeout=CONNECT_SECONDS)
    except ConnectionRefusedError:
        raise ConnectionRefusedError(
            f"nothing listens on {host}:{port}; start the query, and wait until "
            "`network_status(path).listening` is true"
        ) from None
    except OSError as error:  # no such host, no way to it, no reply
        raise ConnectionError(f"{host}:{port} cannot be reached: {error}") from None
    if tls is None:
        return connected
    try:
        return tls.wrap_socket(connected, server_hostname=host, suppress_ragged_eofs=False)
    except OSError as error:
        connected.close()
        raise _broken(host, error, in_handshake=True) from None


def _broken(where: str, error: OSError, in_handshake: bool = False) -> ConnectionError:
    """Return why a connection ended. The reasons that a handshake has are refusals."""
    if isinstance(error, ssl.SSLCertVerificationError):
        text = f"{where} presented an untrusted certificate: {error.verify_message}"
        return SenderRefusedError(text)
    hint = "; perhaps it expects no TLS, or all its `maxConnections` are in use"
    if isinstance(error, ssl.SSLError) and not isinstance(error, _GONE):
        reason = (error.reason or str(error)).replace("_", " ").lower()
        if "certificate" in reason or "unknown ca" in reason:
            text = f"the receiver does not accept this sender's certificate: {reason}"
            return SenderRefusedError(text)
        if in_handshake:
            text = f"{where} probably expects no TLS (leave out `tls`, --tls-ca): {reason}"
            return SenderRefusedError(text)
    return ConnectionResetError(
        f"{where}: the connection broke: {error}{hint if in_handshake else ''}"
    )


def raise_if_refused(reply: bytes) -> None:
    """Raise `SenderRefusedError` for a refusal, and for a reply that is not `network_lines`'s."""
    text = reply.decode(errors="replace")
    if text.startswith(REFUSED) and text.endswith("\n"):
        raise SenderRefusedError(text.removeprefix(REFUSED).strip())
    if reply.startswith(_TLS_ALERT):
        raise SenderRefusedError("the receiver expects TLS; use `tls` (--tls-ca)")
    if not SAYS.startswith(text[: len(SAYS)]) or len(reply) > REPLY_BYTES:
        raise SenderRefusedError(f"no `network_lines` listens there: it says {text[:QUOTED]!r}")
