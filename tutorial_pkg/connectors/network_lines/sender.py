"""A sender's connection, and lines sent over it, all at once or as if they happened now."""

from __future__ import annotations

import errno
import math
import select
import socket
import ssl
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Self

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
_TLS_ALERT = b"\x15\x03"  # what a server that expects TLS replies to anything else


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
    sent = 0
    with Channel((host, port), tls, timeout) as channel:
        try:
            for group in _paced(lines, rate):
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
    early = channel.receive(0)
    if early == b"":  # a close confirms only lines before this side's end
        raise ConnectionResetError("the receiver has ended before the sender")
    reply = early or b""
    raise_if_refused(reply)
    channel.end()
    try:
        while more := channel.wait():
            reply += more
            raise_if_refused(reply)
    except ConnectionResetError:
        if not reply.startswith(DROPPED.encode()):
            raise
    raise_if_refused(reply)
    return reply.decode().removeprefix(DROPPED).strip()


def _paced(lines: Iterable[str | bytes], rate: float | None) -> Iterator[list[str | bytes]]:
    """Yield groups of lines, each at its time; late ones follow at once."""
    remaining, sent, started = iter(lines), 0, time.monotonic()
    while group := list(islice(remaining, lines_at_once(LINES_AT_ONCE, rate))):
        wait_for_turn(started, sent, rate)
        yield group
        sent += len(group)


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
    """A connection to a receiver. Its waits end with a `TimeoutError` after `patience` seconds.

    `on_wait` is called about once a second while the receiver is slow. Raises `SenderRefusedError`,
    and `ConnectionError` for a connection that cannot be made or that broke.
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
        self._progress_at = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def send(self, data: bytes) -> None:
        """Send `data`. If the connection breaks, the error says why, if the receiver said so."""
        rest, was_full = memoryview(data), False
        self._socket.settimeout(self._step)
        while rest:
            try:
                rest = rest[self._socket.send(rest) :]
            except TimeoutError:
                was_full = True
                self.check_patience()
                continue
            except OSError as error:
                broken = ConnectionResetError(f"{self.where}: the connection broke: {error}")
                raise self._reason(broken) from None
            if was_full:  # there is room again: the receiver reads
                self._progress_at = time.monotonic()

    def receive(self, seconds: float) -> bytes | None:
        """Return what the receiver replies, nothing at its end; None after so many seconds."""
        self._socket.settimeout(seconds)
        try:
            reply = self._socket.recv(REPLY_BYTES)
        except _NOTHING_YET as error:
            if error.errno == errno.ETIMEDOUT:  # the system has given up
                raise ConnectionResetError(f"{self.where}: the connection broke: {error}") from None
            return None
        except ssl.SSLZeroReturnError:  # this side has ended, too
            reply = b""
        except ssl.SSLError as error:
            raise _tls_failure(error) from None
        except OSError as error:  # the host has gone
            raise ConnectionResetError(f"{self.where}: the connection broke: {error}") from None
        self._progress_at = time.monotonic()
        return reply

    def wait(self) -> bytes:
        """Return the next part of the reply, nothing at its end."""
        while (reply := self.receive(self._step)) is None:
            self.check_patience()
        return reply

    def take(self, reply: bytes) -> None:
        """Take in a part of the reply. Raises `SenderRefusedError`."""
        raise_if_refused(reply)

    def check_patience(self) -> None:
        """Raise `TimeoutError` if there was no progress for too long."""
        self._on_wait()
        if time.monotonic() - self._progress_at > self.patience:
            text = f"{self.where} has read nothing and replied nothing for {self.patience:g} s"
            raise TimeoutError(text)

    def end(self) -> None:
        """Announce that nothing more comes."""
        try:
            if isinstance(self._socket, ssl.SSLSocket):
                self._close_notify(self._socket)
            else:
                self._socket.shutdown(socket.SHUT_WR)
        except TimeoutError:
            raise
        except ssl.SSLError as error:
            raise _tls_failure(error) from None
        except OSError as error:  # "not connected": the receiver has reset it already
            raise ConnectionResetError(error.errno, error.strerror) from error

    def _close_notify(self, secured: ssl.SSLSocket) -> None:
        secured.settimeout(0)  # otherwise `unwrap` would wait for the other side's end
        while True:
            try:
                secured.unwrap()
            except ssl.SSLWantWriteError:  # the buffer is full
                if not select.select([], [secured], [], self._step)[1]:
                    self.check_patience()
                continue
            except ssl.SSLWantReadError:
                pass
            return

    def _reason(self, broken: OSError) -> OSError:
        """Return what the receiver said before the connection broke, or that it broke."""
        try:
            self.take(self.receive(LOOK_SECONDS) or b"")
        except SenderRefusedError as refused:
            return refused
        except OSError:
            pass
        return broken

    @property
    def _step(self) -> float:
        return min(WAIT_SECONDS, self.patience / 3)


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
        why = getattr(error, "reason", None) or error
        if isinstance(error, ssl.SSLCertVerificationError):
            text = f"{host} presented an untrusted certificate: {error.verify_message}"
        elif isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError):
            text = (
                f"{host} does not start TLS: {why}. It probably expects no TLS (leave out `tls`, "
                "--tls-ca), or does not accept this sender's certificate"
            )
        else:
            text = (
                f"{host} did not finish the handshake; perhaps it expects no TLS, or all its "
                "`maxConnections` are in use"
            )
            raise ConnectionResetError(text) from None
        raise SenderRefusedError(text) from None


def _tls_failure(error: ssl.SSLError) -> ConnectionError:
    """Return why the receiver ended a TLS connection."""
    if isinstance(error, ssl.SSLEOFError | ssl.SSLSyscallError):
        return ConnectionResetError("the receiver has gone without ending the connection")
    reason = (error.reason or str(error)).replace("_", " ").lower()
    if "certificate" in reason or "unknown ca" in reason:
        text = f"the receiver does not accept this sender's certificate: {reason}"
        return SenderRefusedError(text)
    return ConnectionResetError(f"the receiver broke off the connection: {reason}")


def raise_if_refused(reply: bytes) -> None:
    """Raise `SenderRefusedError` for a refusal, and for a reply that is not `network_lines`'s."""
    text = reply.decode(errors="replace")
    if text.startswith(REFUSED) and text.endswith("\n"):
        raise SenderRefusedError(text.removeprefix(REFUSED).strip())
    if reply.startswith(_TLS_ALERT):
        raise SenderRefusedError("the receiver expects TLS; use `tls` (--tls-ca)")
    if not SAYS.startswith(text[: len(SAYS)]) or len(reply) > REPLY_BYTES:
        raise SenderRefusedError(f"no `network_lines` listens there: it says {text[:QUOTED]!r}")
