"""Exactly once from the sender: a file, or files that grow, sent under a name.

The receiver keeps the sender's position beside its lines (the package's docstring has the
protocol). So nothing is kept here: whatever was killed or cut, the receiver knows where to go on.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import select
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tutorial_pkg.connectors.file_lines import FileLinesDataSource
from tutorial_pkg.connectors.network_lines.sender import (
    SENDS_PER_SECOND,
    SILENT_SECONDS,
    SenderRefusedError,
    connect,
    end,
    progress_bar,
    receive,
)
from tutorial_pkg.connectors.network_lines.tls import SecureSocket
from tutorial_pkg.connectors.network_lines.wire import MOST_WELCOME_BYTES, greeting

WINDOW = 8  # blocks under way that are not on disk yet
TELL_SECONDS = 30.0  # until it is reported that the receiver does not answer
LOOK_SECONDS = 0.1
IN_USE_SECONDS = 3.0
AWAY_SECONDS = (0.2, 5.0)  # between two attempts to connect: they double
_CHECKED_BYTES = 1024

log = logging.getLogger(__name__)

Position = Any  # JSON
Blocks = Iterator[tuple[bytes, Position]]


class NameInUseError(SenderRefusedError):
    """Another sender with this name is connected."""


# ---- One connection ------------------------------------------------------------------------------


class Exchange:
    """A connection of a sender with a name; `welcome` is what the receiver said of it.

    Raises `ConnectionError`: `SenderRefusedError` if the receiver does not want this sender.
    """

    def __init__(self, address: tuple[str, int], name: str, tls: ssl.SSLContext | None) -> None:
        self._address = f"{address[0]}:{address[1]}"
        self._socket = connect(address, tls)
        self._socket.setblocking(False)
        self._said = b""
        self._sent = self._stored = 0
        self._ended = False
        self._heard_at = self._told_at = time.monotonic()
        self._patience = SILENT_SECONDS
        self.welcome: dict[str, Any] = {}
        try:
            self._send(greeting(name))
            self.welcome = self._welcome()
            self._patience = self.welcome["idle_seconds"]
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Exchange:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def send(self, lines: bytes, position: Position) -> None:
        """Begin to send a block; it waits while too many others are not on disk."""
        header = {"bytes": len(lines), "position": position}
        self._send(_json(header) + lines)
        self._sent += 1
        self.wait(lambda: self._sent - self._stored < WINDOW)

    def rest(self, seconds: float) -> None:
        """Nothing to send: hear what the receiver says, and let it know now and then."""
        self._hear(seconds)
        self._raise_if_ended()
        if time.monotonic() - self._told_at > self._patience / 3:
            self._told_at = time.monotonic()
            self._send(_json({"bytes": 0}))

    def finish(self) -> None:
        """Say that this is all, and return when all of it is on disk."""
        self.wait(lambda: self._stored == self._sent)  # TLS cannot end while answers are to come
        end(self._socket)
        self.wait(lambda: self._ended)
        if self._stored < self._sent:
            raise ConnectionResetError(f"{self._address} has ended before all was on disk")

    def wait(self, enough: Callable[[], bool]) -> None:
        """Hear the receiver until that is enough."""
        while not enough():
            self._raise_if_ended()
            self._hear(min(TELL_SECONDS, self._patience / 3))

    def _welcome(self) -> dict[str, Any]:
        if not self._hear(TELL_SECONDS):
            log.warning(_SILENT, self._address, TELL_SECONDS)
        self.wait(lambda: b"\n" in self._said)
        text, _, self._said = self._said.partition(b"\n")
        return self._parsed(text)

    def _send(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            try:
                left = left[self._socket.send(left) :]
            except BlockingIOError:
                self._hear(self._patience / 3, to_send=True)
            self._raise_if_ended()

    def _hear(self, seconds: float, to_send: bool = False) -> bool:
        """Whether the receiver says something within `seconds`, or takes what there is `to_send`.

        One that does neither for too long is away, whatever the connection says.
        """
        both = [self._socket]
        known = isinstance(self._socket, SecureSocket) and self._socket.has_more
        readable, writable, _ = select.select(
            both, both if to_send else [], [], 0 if known else seconds
        )
        heard = (known or readable) and self._take()
        if heard or writable:
            self._heard_at = time.monotonic()
        elif time.monotonic() - self._heard_at > self._patience:
            raise ConnectionResetError(f"{self._address} does not answer any more")
        return bool(heard)

    def _raise_if_ended(self) -> None:
        if self._ended:
            raise ConnectionResetError(f"{self._address} has ended the connection")

    def _take(self) -> bool:
        """Take what the receiver says; whether it said something."""
        try:
            said = receive(self._socket)
        except BlockingIOError:
            return False
        self._ended = not said
        self._said += said
        if len(self._said) > MOST_WELCOME_BYTES:
            raise SenderRefusedError(f"{self._address} says too much to be `network_lines`")
        if self.welcome:
            *whole, self._said = self._said.split(b"\n")
            for text in whole:
                self._stored = self._parsed(text)["stored"]
        return True

    def _parsed(self, text: bytes) -> dict[str, Any]:
        try:
            said: dict[str, Any] = json.loads(text)
        except ValueError:
            text_said = text.decode(errors="replace")
            raise SenderRefusedError(f"{self._address} says: {text_said}") from None
        if "refused" in said:
            error = NameInUseError if said.get("in_use") else SenderRefusedError
            raise error(said["refused"])
        return said


def open_exchange(address: tuple[str, int], name: str, tls: ssl.SSLContext | None) -> Exchange:
    """A connection. A receiver may not have noticed yet that a sender was killed: this tries again
    for some seconds. Raises what `Exchange` does."""
    deadline = time.monotonic() + IN_USE_SECONDS
    while True:
        try:
            return Exchange(address, name, tls)
        except NameInUseError:
            if time.monotonic() > deadline:
                raise
            time.sleep(LOOK_SECONDS)


_SILENT = (
    "%s has taken the connection, and says nothing for %.0f s: it may have too much to do (a full "
    "backlog, no free slot), or be no `network_lines` of this version"
)


def _json(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode() + b"\n"


# ---- A file --------------------------------------------------------------------------------------


def send_named(
    path: str | Path,
    host: str,
    port: int,
    name: str,
    rate: float | None = None,
    tls: ssl.SSLContext | None = None,
) -> int:
    """Send a file's lines that the receiver does not have yet; the number of lines sent.

    The receiver knows `name`, and how many bytes of the file it has on disk: after any failure of
    either side, send again, and each line is stored once. One name is for one file; give the next
    file another one. It returns when all is on disk.

    Raises what `send_lines` does, and `ValueError` for a file that was replaced or truncated, a
    line that is too long for the receiver, and a last line without a newline, which may be torn:
    everything before it was sent.
    """
    with open(path, "rb", buffering=0) as file, open_exchange((host, port), name, tls) as exchange:
        source = FileBlocks(Path(path), file.fileno())
        lines = source.send(exchange, rate)
        exchange.finish()
        source.check_end()
    return lines


class FileBlocks:
    """A file in blocks; a position is the next unsent byte, and what the bytes before it were."""

    def __init__(self, path: Path, file: int) -> None:
        self._path, self._file = path, file
        self._next = 0

    def send(self, exchange: Exchange, rate: float | None) -> int:
        """Send what is missing; how many lines that was."""
        self._next = self._begin(exchange.welcome["position"])
        size = os.fstat(self._file).st_size
        begin, sent = time.monotonic(), 0
        shown = {"total": size, "initial": self._next, "unit": "B", "unit_scale": True}
        with progress_bar(**shown) as bar:
            for lines, position in self._blocks(exchange.welcome, size, rate):
                if rate is not None:
                    time.sleep(max(0.0, begin + sent / rate - time.monotonic()))
                exchange.send(lines, position)
                sent += lines.count(b"\n")
                bar.update(len(lines))
        return sent

    def check_end(self) -> None:
        """Raise `ValueError` if a last line has no newline yet."""
        rest = os.fstat(self._file).st_size - self._next
        if rest:
            raise ValueError(
                f"{self._path}: its last {rest} bytes have no newline after them and were not "
                "sent, as the line may be torn; all lines before them are on disk. End the line, "
                "and send again"
            )

    def _begin(self, position: Position) -> int:
        if not position:
            return 0
        if "next" not in position:
            raise ValueError(_OTHER_USE)
        if self._position(position["next"]) != position:
            raise ValueError(
                f"{self._path} does not begin with the {position['next']} bytes that the receiver "
                "has from this name: it was replaced or truncated. Nothing was sent; send this "
                "file under another name"
            )
        return int(position["next"])

    def _blocks(self, limits: dict[str, Any], size: int, rate: float | None) -> Blocks:
        rows = limits["block_rows"] if rate is None else max(1, int(rate / SENDS_PER_SECOND))
        rows = min(rows, limits["block_rows"])
        while lines := self._read(limits, size, rows):
            self._next += len(lines)
            yield lines, self._position(self._next)

    def _read(self, limits: dict[str, Any], size: int, rows: int) -> bytes:
        """The next whole lines: as many as a block holds, at least one, nothing at the end."""
        most = limits["block_bytes"]
        data = os.pread(self._file, min(most, size - self._next), self._next)
        if data and b"\n" not in data:
            most = limits["line_bytes"] + 1
            data = os.pread(self._file, min(most, size - self._next), self._next)
            data = data[: data.find(b"\n") + 1] if b"\n" in data else data
        if b"\n" not in data and len(data) == most:
            raise ValueError(
                f"{self._path}: the line at byte {self._next} has more than {most - 1} bytes, and "
                "the receiver takes no longer ones (option `maxLineBytes`)"
            )
        whole = data[: data.rfind(b"\n") + 1]
        if whole.count(b"\n") > rows:
            whole = b"\n".join(whole.split(b"\n", rows)[:rows]) + b"\n"
        return whole

    def _position(self, place: int) -> dict[str, Any]:
        length = min(place, _CHECKED_BYTES)
        head, check = os.pread(self._file, length, 0), os.pread(self._file, length, place - length)
        return {"next": place, "head": _digest(head), "check": _digest(check)}


_OTHER_USE = (
    "this name was used for another kind of sending (one file, or --follow); choose another name"
)


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=8).hexdigest()


# ---- Files that grow -----------------------------------------------------------------------------


def follow(
    path: str | Path,
    host: str,
    port: int,
    name: str,
    tls: Callable[[], ssl.SSLContext | None] = lambda: None,
    stopping: threading.Event | None = None,
) -> None:
    """Send the lines of a file, folder or glob as they come, through rotation, until `stopping`.

    Files are read as the format `file_lines` reads them (its docstring has the rules). While the
    receiver is away this waits for it, and says so once. `tls` is asked at each connect, so that
    renewed certificates are used; one that has expired meanwhile is waited for in the same way.
    Raises `SenderRefusedError` if the receiver does not want this sender, and `ValueError`
    for a path or a line that cannot be read.
    """
    stopping = stopping or threading.Event()
    source = GrowingFiles(path)
    pause, was_there = AWAY_SECONDS[0], False
    told: set[bool] = set()  # that it is away, and that a certificate is the reason
    while not stopping.is_set():
        try:
            with open_exchange((host, port), name, _tls_now(tls, was_there)) as exchange:
                log.info("%s:%d takes the lines of %s as %s", host, port, path, name)
                pause, was_there, told = AWAY_SECONDS[0], True, set()
                source.send(exchange, stopping)
                exchange.finish()
        except (ConnectionError, TimeoutError) as error:
            if isinstance(error, SenderRefusedError) and not (was_there and _may_pass(error)):
                raise
            certificate = isinstance(error, SenderRefusedError) and error.certificate
            if certificate not in told and not isinstance(error, NameInUseError):
                log.warning("%s:%d is away (%s); it is tried again and again", host, port, error)
                told.add(certificate)
        stopping.wait(pause)
        pause = min(2 * pause, AWAY_SECONDS[1])


def _may_pass(error: SenderRefusedError) -> bool:
    return isinstance(error, NameInUseError) or error.certificate


def _tls_now(tls: Callable[[], ssl.SSLContext | None], was_there: bool) -> ssl.SSLContext | None:
    try:
        return tls()
    except ValueError as error:
        if not was_there:
            raise
        # Files that are being renewed may not fit each other for a moment.
        raise SenderRefusedError(error, certificate=True) from None


class GrowingFiles:
    """What `file_lines` finds in files; a position is an offset of that format."""

    def __init__(self, path: str | Path) -> None:
        self._path = str(path)

    def send(self, exchange: Exchange, stopping: threading.Event) -> None:
        """Send what comes, until `stopping`."""
        reader = self._reader(exchange.welcome)
        position = exchange.welcome["position"]
        if not position:
            position = reader.initialOffset()
        if "files" not in position:
            raise ValueError(_OTHER_USE)
        while not stopping.is_set():
            following = reader.latestOffset(position, reader.getDefaultReadLimit())
            if following == position:
                exchange.rest(LOOK_SECONDS)
                continue
            try:
                lines = self._lines(reader, position, following)
            except FileNotFoundError:  # rotated away between the two; a new reader finds it
                reader = self._reader(exchange.welcome)
                stopping.wait(LOOK_SECONDS)
                continue
            if lines:
                exchange.send(lines, following)
            position = following

    def _reader(self, limits: dict[str, Any]) -> Any:
        options = {
            "path": self._path,
            "maxBytesPerTrigger": str(limits["block_bytes"]),
            "maxRowsPerTrigger": str(limits["block_rows"]),
            "maxLineBytes": str(max(1 << 20, limits["line_bytes"])),
        }
        return FileLinesDataSource(options).streamReader(None)  # type: ignore[arg-type]

    def _lines(self, reader: Any, start: Position, stop: Position) -> bytes:
        parts = reader.partitions(start, stop)
        batches = [batch for part in parts for batch in reader.read(part)]
        return b"".join(_text(batch.column("value")) for batch in batches if len(batch))


def _text(lines: pa.StringArray) -> bytes:
    """The lines, each with its newline."""
    whole = pa.ListArray.from_arrays([0, len(lines)], lines.cast(pa.binary()))
    text: bytes = pc.binary_join(whole, b"\n")[0].as_py()
    return text + b"\n"
