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
CONNECT_SECONDS = 30.0
SILENT_SECONDS = 300.0  # longest wait for a receiver that takes and says nothing
ANSWER_BYTES = 64 * 1024
_BOTH = selectors.EVENT_READ | selectors.EVENT_WRITE

Connected = socket.socket | SecureSocket


class _NoBar:
    """Shows nothing."""

    def update(self, _: int) -> None:
        """There is more."""


def progress_bar(**shown: Any) -> Any:
    """Only in a terminal, since a notebook's cell should stay clean; none without `tqdm`."""
    try:
        from tqdm import tqdm  # not by each process that imports a connector
    except ModuleNotFoundError:  # extra `progress`
        return nullcontext(_NoBar())
    return tqdm(**shown, disable=None)


class SenderRefusedError(ConnectionError):
    """The receiver does not let this sender in, or is not to be trusted; the text says why.

    `certificate`: one side does not trust the other's certificate. A renewed one may be trusted.
    """

    def __init__(self, text: object, certificate: bool = False) -> None:
        super().__init__(text)
        self.certificate = certificate


class LinesDroppedError(ConnectionError):
    """The receiver did not take all lines; the text says how many, and why."""


def send_lines(
    host: str,
    port: int,
    lines: Iterable[str | bytes],
    rate: float | None = None,
    connections: int = 1,
    tls: ssl.SSLContext | None = None,
    timeout: float | None = SILENT_SECONDS,
) -> int:
    """Send `lines` to `host`:`port`, each ended by a newline, and return their number.

    `rate` is in lines per second over all connections; None means as fast as the receiver takes
    them. With several `connections`, each group of lines goes to one that has finished sending its
    last group. Returns when the receiver has closed its end, which `network_lines` does as soon as
    all lines are on disk. Without TLS any program can do that: whatever reads all lines and closes
    counts as a receiver. `tls` is for a receiver that speaks TLS; make it with `client_tls`.
    `timeout` is how many seconds to wait for a receiver that takes nothing and says nothing, as one
    with a full backlog does; None is for ever.

    Raises `ConnectionRefusedError` if nothing listens there; `ConnectionError` if a connection
    breaks; its subclass `SenderRefusedError` if a side does not trust the other's certificate, or
    if the other side says something that `network_lines` would not; `LinesDroppedError`, also a
    subclass, if `network_lines` dropped lines and has the others on disk; `TimeoutError`;
    `TypeError` for anything that is not a line, and `ValueError` for a line with a newline inside,
    a bad `rate` or bad `connections`.
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
            raise TimeoutError(f"{address[0]}:{address[1]} {error}; {_UNKNOWN}") from None
        except ConnectionError as error:
            raise ConnectionError(_broken_text(address, sent)) from error
    if dropped:
        raise LinesDroppedError(_dropped_text(address, dropped, sent))
    return sent


class Connections:
    """Connections that take turns: the next data goes to one that has sent its last.

    So a connection that the receiver has not accepted yet keeps only its own lines waiting, until
    the others have ended and it gets a slot. `timeout` is as for `send_lines`.
    """

    def __init__(self, sockets: Sequence[Connected], timeout: float | None) -> None:
        self._timeout = timeout
        self._free = deque(sockets)
        self._busy = selectors.DefaultSelector()
        self._answers = dict.fromkeys(sockets, b"")
        for connected in sockets:
            connected.setblocking(False)

    def __enter__(self) -> Connections:
        return self

    def __exit__(self, *_: object) -> None:
        self._busy.close()

    def send(self, data: bytes) -> None:
        """Begin to send `data`, when a connection is free to do so."""
        while not self._free:
            self._go_on()
        connected = self._free.popleft()
        self._busy.register(connected, _BOTH, (connected, memoryview(data)))
        self._go_on(wait=False)

    def finish(self) -> Counter[str]:
        """Send the rest, wait for the receiver's closes, and return what it says it dropped."""
        while self._free or self._busy.get_map():
            while self._free:
                self._end(self._free.popleft())
            self._go_on()
        answers = map(dropped_in, self._answers.values())
        return sum(map(Counter, answers), Counter[str]())

    def _go_on(self, wait: bool = True) -> None:
        """Whatever some connection is ready for; at least one thing, if it is to wait."""
        ready = self._busy.select(self._timeout if wait else 0)
        if wait and not ready:
            raise TimeoutError(f"has taken nothing and said nothing for {self._timeout} s")
        for key, events in ready:
            connected, unsent = key.data
            if events & selectors.EVENT_READ:
                self._receive(connected, has_ended=unsent is None)
            if events & selectors.EVENT_WRITE:
                self._send_some(connected, unsent)

    def _send_some(self, connected: Connected, unsent: memoryview) -> None:
        try:
            left = unsent[connected.send(unsent) :]
        except BlockingIOError:  # TLS has something of its own to do first
            return
        if left:
            self._busy.modify(connected, _BOTH, (connected, left))
        else:
            self._busy.unregister(connected)
            self._free.append(connected)

    def _end(self, connected: Connected) -> None:
        """Say that this is all; what is left to do is to read the answer."""
        self._receive(connected, has_ended=False)
        end(connected, self._timeout)
        self._busy.register(connected, selectors.EVENT_READ, (connected, None))

    def _receive(self, connected: Connected, has_ended: bool) -> None:
        """What the receiver says: its close confirms only what we have ended before."""
        try:
            said = receive(connected)
        except BlockingIOError:
            return
        except ConnectionError:
            if not dropped_in(self._answers[connected]):
                raise
            said = b""  # it said why
        self._answers[connected] += said
        raise_if_refused(self._answers[connected])
        if not said and not has_ended:
            raise ConnectionResetError("the receiver has ended before the sender")
        if not said:
            self._busy.unregister(connected)


def connect(address: tuple[str, int], tls: ssl.SSLContext | None = None) -> Connected:
    """A connection to a receiver. Raises what `send_lines` does."""
    try:
        connected = socket.create_connection(address, timeout=CONNECT_SECONDS)
    except ConnectionRefusedError:
        raise ConnectionRefusedError(
            f"nothing listens on {address[0]}:{address[1]}; start the query first, and look "
            "whether `network_status(path)` says that it waits for connections"
        ) from None
    except OSError as error:  # no such host, no way to it, no answer
        raise ConnectionError(f"{address[0]}:{address[1]} cannot be reached: {error}") from None
    secured = _secured(connected, address[0], tls) if tls else connected
    secured.settimeout(None)
    return secured


def _secured(connected: socket.socket, host: str, tls: ssl.SSLContext) -> SecureSocket:
    try:
        return secure(connected, tls, host, handshake=True)
    except OSError as error:
        connected.close()
        raise _insecure(host, error) from None


def _insecure(host: str, error: OSError) -> ConnectionError:
    """Why a handshake failed; what a new attempt might change is no refusal."""
    if isinstance(error, ssl.SSLCertVerificationError):
        text = f"{host} shows a certificate that is not to be trusted: {error.verify_message}"
        return SenderRefusedError(text, certificate=True)
    if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError):
        text = f"{host} does not accept a TLS connection here: {error.reason}"
        return SenderRefusedError(text, certificate=True)
    return ConnectionResetError(f"{host} broke off the handshake")


def end(connected: Connected, timeout: float | None = SILENT_SECONDS) -> None:
    """Say that nothing more comes. Raises `ConnectionError`, `TimeoutError`."""
    try:
        if isinstance(connected, SecureSocket):
            connected.end()
        else:
            connected.shutdown(socket.SHUT_WR)
    except BlockingIOError:  # TLS has a last word, and there is no room for it yet
        if not select.select([], [connected], [], timeout)[1]:
            raise TimeoutError(f"has taken nothing for {timeout} s") from None
        end(connected, timeout)
    except OSError as error:  # "not connected": the receiver has reset it already
        raise ConnectionResetError(error.errno, error.strerror) from error


def receive(connected: Connected) -> bytes:
    """What the receiver says; nothing when it has ended. Raises `ConnectionError`."""
    try:
        return connected.recv(ANSWER_BYTES)
    except ssl.SSLError as error:
        why = (error.reason or str(error)).replace("_", " ").lower()
        text = f"the receiver does not accept this sender's certificate: {why}"
        raise SenderRefusedError(text, certificate=True) from None


def raise_if_refused(said: bytes) -> None:
    """Raise `SenderRefusedError` if the receiver says that it lets nobody like this one in.

    The same if it says something that `network_lines` would not.
    """
    text = said.decode(errors="replace")
    if text.startswith(REFUSED) and text.endswith("\n"):
        raise SenderRefusedError(text.removeprefix(REFUSED).strip())
    begins_well = SAYS.startswith(text[: len(SAYS)])
    if not begins_well or len(said) > ANSWER_BYTES:
        raise SenderRefusedError(f"no `network_lines` listens there: it says {text[:QUOTED]!r}")


def _paced(lines: Iterable[str | bytes], rate: float | None) -> Iterator[list[str | bytes]]:
    """Groups of lines, each when its time has come; late ones follow at once."""
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
    """The line's bytes with the newline at their end, whether it was there or not."""
    data = line.encode() if isinstance(line, str) else line
    if not isinstance(data, bytes | bytearray):
        raise TypeError(f"a line must be str or bytes, got {data!r:.{QUOTED}}")
    return data if data.endswith(b"\n") else data + b"\n"


def _broken_text(address: tuple[str, int], sent: int) -> str:
    return f"the connection to {address[0]}:{address[1]} broke after about {sent} lines; {_UNKNOWN}"


_UNKNOWN = "what the receiver had not written to its log by then is lost"


def _dropped_text(address: tuple[str, int], dropped: Counter[str], sent: int) -> str:
    counts = ", ".join(f"{count} {reason}" for reason, count in sorted(dropped.items()))
    return (
        f"{address[0]}:{address[1]} dropped {dropped.total()} of {sent} lines ({counts}); the "
        "others are in its log. How long a line may be, the query's option `maxLineBytes` says"
    )
