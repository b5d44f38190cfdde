"""Send lines to a TCP port, all at once or as if they happened now, with a progress bar."""

from __future__ import annotations

import queue
import select
import socket
import ssl
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, nullcontext, suppress
from itertools import islice
from pathlib import Path
from typing import Any

from tutorial_pkg.connectors.network_lines.protocol import REFUSED, SAYS, dropped_in

LINES_AT_ONCE = 10_000
SENDS_PER_SECOND = 20
COUNTED_AT_ONCE = 1024 * 1024
QUOTED = 120
CONNECT_SECONDS = 10.0
SILENT_SECONDS = 300.0  # longest wait for a receiver that neither reads nor replies
REPLY_BYTES = 64 * 1024
_TLS_ALERT = b"\x15\x03"  # what a server that expects TLS replies to anything else
_NOT_TLS = ("WRONG_VERSION_NUMBER", "UNKNOWN_PROTOCOL", "HTTP_REQUEST", "RECORD_LAYER", "TOO_LONG")
_ABOUT_CERTIFICATES = ("certificate", "unknown ca", "access denied", "handshake failure")
_UNKNOWN = "lines that the receiver had not written to its log by then are lost"


class _NoBar:
    """A progress bar that shows nothing."""

    def update(self, _: int) -> None:
        """Ignore the progress."""


def progress_bar(**shown: Any) -> Any:
    """Return a bar for a terminal; a notebook's cell stays clean, and so it does without `tqdm`."""
    try:
        from tqdm import tqdm  # not in each process that imports a connector
    except ModuleNotFoundError:  # extra `progress`
        return nullcontext(_NoBar())
    return tqdm(**shown, disable=None)


class SenderRefusedError(ConnectionError):
    """The receiver refuses this sender, or cannot be trusted; the text says why.

    `certificate` means that one side does not trust the other's certificate. After a renewal it
    may.
    """

    def __init__(self, text: object, certificate: bool = False) -> None:
        super().__init__(text)
        self.certificate = certificate


class LinesDroppedError(ConnectionError):
    """The receiver dropped lines; the text says how many, and why."""


def send_lines(
    host: str,
    port: int,
    lines: Iterable[str | bytes],
    rate: float | None = None,
    connections: int = 1,
    tls: ssl.SSLContext | None = None,
    timeout: float | None = SILENT_SECONDS,
) -> int:
    """Send `lines`, each ended by a newline, and return their number.

    It returns when the receiver has closed its end, which `network_lines` does once all lines are
    on disk. Without TLS any program can do that: anything that reads all lines and closes counts
    as a receiver.

    Args:
        rate: lines per second over all connections; None is as fast as the receiver reads.
        connections: each group of lines goes to one that has finished sending its last group.
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
        ValueError: a line has a newline inside, or `rate` or `connections` is invalid.
    """
    if isinstance(lines, str | bytes | bytearray):
        raise TypeError(
            f"`lines` must be an iterable of lines, got a {type(lines).__name__}, "
            f"{lines[:QUOTED]!r}; give [line] for one line, and text.splitlines() for a text"
        )
    total = len(lines) if isinstance(lines, Sequence) else None
    return _send_all((host, port), lines, total, rate, connections, tls, timeout)


def send_file(
    path: str | Path,
    host: str,
    port: int,
    rate: float | None = None,
    connections: int = 1,
    tls: ssl.SSLContext | None = None,
    timeout: float | None = SILENT_SECONDS,
) -> int:
    """Send a file's lines as `send_lines` does, and return their number."""
    with Path(path).open("rb") as file:
        total = sum(block.count(b"\n") for block in iter(lambda: file.read(COUNTED_AT_ONCE), b""))
        file.seek(0)
        return _send_all((host, port), file, total, rate, connections, tls, timeout)


def _send_all(
    address: tuple[str, int],
    lines: Iterable[str | bytes],
    total: int | None,
    rate: float | None,
    connections: int,
    tls: ssl.SSLContext | None,
    timeout: float | None,
) -> int:
    if rate is not None and not rate > 0:
        raise ValueError(f"`rate` must be more than 0 lines per second, or None, got {rate!r}")
    if connections < 1:
        raise ValueError(f"`connections` must be 1 or more, got {connections!r}")
    where = f"{address[0]}:{address[1]}"
    with ExitStack() as opened:
        sockets = [opened.enter_context(closing(connect(address, tls))) for _ in range(connections)]
        bar = opened.enter_context(progress_bar(total=total, unit=" lines"))
        sending = opened.enter_context(Connections(sockets, timeout))
        sent = 0
        try:
            for group in _paced(lines, rate):
                sending.send(_joined(group))
                sent += len(group)
                bar.update(len(group))
            dropped = sending.finish()
        except SenderRefusedError:
            raise
        except TimeoutError:
            text = f"{where} has read nothing and replied nothing for {timeout} s; {_UNKNOWN}"
            raise TimeoutError(text) from None
        except ConnectionError as error:
            text = f"the connection to {where} broke after about {sent} lines; {_UNKNOWN}"
            raise ConnectionError(text) from error
    if dropped:
        counts = ", ".join(f"{count} {reason}" for reason, count in sorted(dropped.items()))
        raise LinesDroppedError(
            f"{where} dropped {dropped.total()} of {sent} lines ({counts}); the others are in its "
            "log. The query's option `maxLineBytes` says how long a line may be"
        )
    return sent


class Connections:
    """Connections that take turns, each with a thread: data goes to one that has sent its last.

    So a connection still waiting to be accepted holds up only its own lines, until the
    others have ended and it gets a slot. `timeout` is as for `send_lines`.
    """

    def __init__(self, sockets: Sequence[socket.socket], timeout: float | None) -> None:
        self._sockets, self._threads = sockets, ThreadPoolExecutor(len(sockets))
        self._free: queue.SimpleQueue[socket.socket] = queue.SimpleQueue()
        self._failure: BaseException | None = None
        for connected in sockets:
            connected.settimeout(timeout)
            self._free.put(connected)

    def __enter__(self) -> Connections:
        return self

    def __exit__(self, *_: object) -> None:
        for connected in self._sockets:  # wakes a thread that still waits after an error
            with suppress(OSError):
                socket.socket.shutdown(connected, socket.SHUT_RDWR)
        self._threads.shutdown()

    def send(self, data: bytes) -> None:
        """Start to send `data` as soon as a connection is free."""
        connected = self._free.get()
        if self._failure:
            raise self._failure
        self._threads.submit(self._send, connected, data)

    def finish(self) -> Counter[str]:
        """Send the rest, wait for the receiver to close, and return the lines it has dropped."""
        ending = []
        for _ in self._sockets:
            connected = self._free.get()
            if self._failure:
                raise self._failure
            ending.append(self._threads.submit(_end_and_wait, connected))
        counts = [Counter(dropped_in(reply.result())) for reply in ending]
        return sum(counts, Counter[str]())

    def _send(self, connected: socket.socket, data: bytes) -> None:
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[connected.send(rest) :]
        except TimeoutError as error:
            self._failure = error
        except OSError as error:
            self._failure = _reason_for(connected, error)
        self._free.put(connected)


def _reason_for(connected: socket.socket, broken: OSError) -> OSError:
    """Return what the receiver said before the connection broke, or that it broke."""
    try:
        raise_if_refused(receive(connected))
    except SenderRefusedError as refused:
        return refused
    except OSError:
        pass
    return ConnectionResetError(f"the connection broke: {broken}")


def _end_and_wait(connected: socket.socket) -> bytes:
    """End this side, and return the reply when the receiver has closed."""
    timeout, reply = connected.gettimeout(), b""
    connected.settimeout(0)
    with suppress(BlockingIOError):
        reply = receive(connected)
        if not reply:  # a close confirms only lines before this side's end
            raise ConnectionResetError("the receiver has ended before the sender")
    raise_if_refused(reply)
    connected.settimeout(timeout)
    end(connected)
    try:
        while more := receive(connected):
            reply += more
            raise_if_refused(reply)
    except ConnectionResetError:
        if not dropped_in(reply):  # it reported the reason before
            raise
    raise_if_refused(reply)
    return reply


# ---- One connection ------------------------------------------------------------------------------


def connect(address: tuple[str, int], tls: ssl.SSLContext | None = None) -> socket.socket:
    """Connect to a receiver. Raises what `send_lines` does."""
    try:
        connected = socket.create_connection(address, timeout=CONNECT_SECONDS)
    except ConnectionRefusedError:
        raise ConnectionRefusedError(
            f"nothing listens on {address[0]}:{address[1]}; start the query first, and look "
            "whether `network_status(path)` says that it waits for connections"
        ) from None
    except OSError as error:  # no such host, no way to it, no reply
        raise ConnectionError(f"{address[0]}:{address[1]} cannot be reached: {error}") from None
    if tls:
        try:
            connected = tls.wrap_socket(
                connected, server_hostname=address[0], suppress_ragged_eofs=False
            )
        except OSError as error:
            connected.close()
            raise _insecure(address[0], error) from None
    connected.settimeout(None)
    return connected


def _insecure(host: str, error: OSError) -> ConnectionError:
    """Return why a handshake failed; what a new attempt might change is not a refusal."""
    if isinstance(error, ssl.SSLCertVerificationError):
        text = f"{host} shows a certificate that is not to be trusted: {error.verify_message}"
        return SenderRefusedError(text, certificate=True)
    reason = getattr(error, "reason", None) or ""
    if any(word in reason for word in _NOT_TLS):
        return SenderRefusedError(
            f"{host} does not reply in TLS: the receiver probably expects no TLS; leave out "
            "`tls` (--tls-ca), or use its TLS port"
        )
    if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError):
        text = f"{host} does not accept a TLS connection here: {reason}"
        return SenderRefusedError(text, certificate=True)
    return ConnectionResetError(f"{host} did not finish the handshake; perhaps it expects no TLS")


def end(connected: socket.socket) -> None:
    """Announce that nothing more comes. Raises `ConnectionError`, `TimeoutError`."""
    try:
        if isinstance(connected, ssl.SSLSocket):
            _close_notify(connected)
        else:
            connected.shutdown(socket.SHUT_WR)
    except TimeoutError:
        raise
    except OSError as error:  # "not connected": the receiver has reset it already
        raise ConnectionResetError(error.errno, error.strerror) from error


def _close_notify(connected: ssl.SSLSocket) -> None:
    timeout = connected.gettimeout()
    connected.settimeout(0)  # otherwise `unwrap` would wait for the other side's end
    try:
        connected.unwrap()
    except ssl.SSLWantReadError:
        pass
    except ssl.SSLWantWriteError:  # the buffer is full
        if not select.select([], [connected], [], timeout)[1]:
            raise TimeoutError from None
        connected.settimeout(timeout)
        _close_notify(connected)
    connected.settimeout(timeout)


def receive(connected: socket.socket) -> bytes:
    """Return the next part of the reply, or nothing at its end.

    Raises `ConnectionError`, `TimeoutError`, and `BlockingIOError` for a timeout of 0.
    """
    try:
        return connected.recv(REPLY_BYTES)
    except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
        raise BlockingIOError from None
    except ssl.SSLZeroReturnError:  # this side has ended, too
        return b""
    except (ssl.SSLEOFError, ssl.SSLSyscallError):
        raise ConnectionResetError("the receiver has gone without ending the connection") from None
    except ssl.SSLError as error:
        reason = (error.reason or str(error)).replace("_", " ").lower()
        if any(word in reason for word in _ABOUT_CERTIFICATES):
            text = f"the receiver does not accept this sender's certificate: {reason}"
            raise SenderRefusedError(text, certificate=True) from None
        raise ConnectionResetError(f"the receiver broke off the connection: {reason}") from None


def raise_if_refused(reply: bytes) -> None:
    """Raise `SenderRefusedError` for a refusal, and for a reply that is not `network_lines`'s."""
    text = reply.decode(errors="replace")
    if text.startswith(REFUSED) and text.endswith("\n"):
        raise SenderRefusedError(text.removeprefix(REFUSED).strip())
    if reply.startswith(_TLS_ALERT):
        raise SenderRefusedError("the receiver expects TLS; use `tls` (--tls-ca)")
    if not SAYS.startswith(text[: len(SAYS)]) or len(reply) > REPLY_BYTES:
        raise SenderRefusedError(f"no `network_lines` listens there: it says {text[:QUOTED]!r}")


# ---- Groups of lines -----------------------------------------------------------------------------


def _paced(lines: Iterable[str | bytes], rate: float | None) -> Iterator[list[str | bytes]]:
    """Yield groups of lines, each at its time; late ones follow at once."""
    size = LINES_AT_ONCE if rate is None else max(1, int(rate / SENDS_PER_SECOND))
    remaining, sent, start = iter(lines), 0, time.monotonic()
    while group := list(islice(remaining, size)):
        if rate is not None:
            time.sleep(max(0.0, start + sent / rate - time.monotonic()))
        yield group
        sent += len(group)


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
