"""Send lines to a TCP port, all at once or as if they happened now, with a progress bar."""

from __future__ import annotations

import select
import selectors
import socket
import ssl
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, nullcontext
from itertools import islice
from pathlib import Path
from typing import Any

from tutorial_pkg.connectors.network_lines.tls import SecureSocket, secure
from tutorial_pkg.connectors.network_lines.wire import REFUSED, SAYS, dropped_in

LINES_AT_ONCE = 10_000
SENDS_PER_SECOND = 20
COUNTED_AT_ONCE = 1024 * 1024
QUOTED = 120
CONNECT_SECONDS = 10.0
SILENT_SECONDS = 300.0  # longest wait for a receiver that neither reads nor replies
REPLY_BYTES = 64 * 1024
_TLS_ALERT = b"\x15\x03"  # what a server that expects TLS replies to anything else
_READ_AND_WRITE = selectors.EVENT_READ | selectors.EVENT_WRITE

Connected = socket.socket | SecureSocket


class _NoBar:
    """A progress bar that shows nothing."""

    def update(self, _: int) -> None:
        """Ignore the progress."""


def progress_bar(**shown: Any) -> Any:
    """Return a bar for a terminal; a notebook's cell stays clean. None without `tqdm`."""
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
        except TimeoutError as error:
            raise TimeoutError(f"{where} {error}; {_UNKNOWN}") from None
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


_UNKNOWN = "lines that the receiver had not written to its log by then are lost"


class Connections:
    """Connections that take turns: the next data goes to one that has sent its last.

    So a connection still waiting to be accepted holds up only its own lines, until the
    others have ended and it gets a slot. `timeout` is as for `send_lines`.
    """

    def __init__(self, sockets: Sequence[Connected], timeout: float | None) -> None:
        self._timeout = timeout
        self._free = deque(sockets)
        self._busy = selectors.DefaultSelector()
        self._replies = dict.fromkeys(sockets, b"")
        for connected in sockets:
            connected.setblocking(False)

    def __enter__(self) -> Connections:
        return self

    def __exit__(self, *_: object) -> None:
        self._busy.close()

    def send(self, data: bytes) -> None:
        """Start to send `data` as soon as a connection is free."""
        while not self._free:
            self._work()
        connected = self._free.popleft()
        self._busy.register(connected, _READ_AND_WRITE, (connected, memoryview(data)))
        self._work(wait=False)

    def finish(self) -> Counter[str]:
        """Send the rest, wait for the receiver to close, and return the lines it has dropped."""
        while self._free or self._busy.get_map():
            while self._free:
                self._end(self._free.popleft())
            self._work()
        counts = map(dropped_in, self._replies.values())
        return sum(map(Counter, counts), Counter[str]())

    def _work(self, wait: bool = True) -> None:
        """Do what the connections are ready for; with `wait`, at least one thing."""
        ready = self._busy.select(self._timeout if wait else 0)
        if wait and not ready:
            raise TimeoutError(f"has read nothing and replied nothing for {self._timeout} s")
        for key, events in ready:
            connected, unsent = key.data
            if events & selectors.EVENT_READ:
                self._receive(connected, has_ended=unsent is None)
            if events & selectors.EVENT_WRITE:
                self._send_some(connected, unsent)

    def _send_some(self, connected: Connected, unsent: memoryview) -> None:
        try:
            rest = unsent[connected.send(unsent) :]
        except BlockingIOError:  # TLS must do something else first
            return
        except ConnectionError:
            self._receive(connected, has_ended=False)  # it may have said why
            raise
        if rest:
            self._busy.modify(connected, _READ_AND_WRITE, (connected, rest))
        else:
            self._busy.unregister(connected)
            self._free.append(connected)

    def _end(self, connected: Connected) -> None:
        """End this side; from now on there is only the reply to read."""
        self._receive(connected, has_ended=False)
        end(connected, self._timeout)
        self._busy.register(connected, selectors.EVENT_READ, (connected, None))

    def _receive(self, connected: Connected, has_ended: bool) -> None:
        """Read the reply. The receiver's close confirms only lines before this side's end."""
        try:
            reply = receive(connected)
        except BlockingIOError:
            return
        except ConnectionError:
            if not dropped_in(self._replies[connected]):
                raise
            reply = b""  # it reported the reason before
        self._replies[connected] += reply
        raise_if_refused(self._replies[connected])
        if not reply and not has_ended:
            raise ConnectionResetError("the receiver has ended before the sender")
        if not reply:
            self._busy.unregister(connected)


# ---- One connection ------------------------------------------------------------------------------


def connect(address: tuple[str, int], tls: ssl.SSLContext | None = None) -> Connected:
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
    if tls is None:
        connected.settimeout(None)
        return connected
    try:
        secured = secure(connected, tls, address[0], handshake=True)
    except OSError as error:
        connected.close()
        raise _insecure(address[0], error) from None
    secured.settimeout(None)
    return secured


def _insecure(host: str, error: OSError) -> ConnectionError:
    """Return why a handshake failed; what a new attempt might change is not a refusal."""
    if isinstance(error, ssl.SSLCertVerificationError):
        text = f"{host} shows a certificate that is not to be trusted: {error.verify_message}"
        return SenderRefusedError(text, certificate=True)
    if isinstance(error, TimeoutError):
        text = f"{host} does not reply to a TLS handshake; the receiver probably expects no TLS"
        return ConnectionResetError(text)
    reason = getattr(error, "reason", None) or ""
    if any(word in reason for word in _NOT_TLS):
        return SenderRefusedError(
            f"{host} does not reply in TLS: the receiver probably expects no TLS; leave out "
            "`tls` (--tls-ca), or use its TLS port"
        )
    if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError):
        text = f"{host} does not accept a TLS connection here: {reason}"
        return SenderRefusedError(text, certificate=True)
    return ConnectionResetError(f"{host} broke off the handshake; perhaps it expects no TLS")


_NOT_TLS = ("WRONG_VERSION_NUMBER", "UNKNOWN_PROTOCOL", "HTTP_REQUEST", "RECORD_LAYER", "TOO_LONG")


def end(connected: Connected, timeout: float | None = SILENT_SECONDS) -> None:
    """Announce that nothing more comes. Raises `ConnectionError`, `TimeoutError`."""
    try:
        if isinstance(connected, SecureSocket):
            connected.end()
        else:
            connected.shutdown(socket.SHUT_WR)
    except BlockingIOError:  # TLS has a last record to send, and the buffer is full
        if not select.select([], [connected], [], timeout)[1]:
            raise TimeoutError(f"has read nothing for {timeout} s") from None
        end(connected, timeout)
    except OSError as error:  # "not connected": the receiver has reset it already
        raise ConnectionResetError(error.errno, error.strerror) from error


def receive(connected: Connected) -> bytes:
    """Return the next part of the reply, or nothing at its end. Raises `ConnectionError`."""
    try:
        return connected.recv(REPLY_BYTES)
    except ssl.SSLError as error:
        reason = (error.reason or str(error)).replace("_", " ").lower()
        text = f"the receiver does not accept this sender's certificate: {reason}"
        raise SenderRefusedError(text, certificate=True) from None


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
