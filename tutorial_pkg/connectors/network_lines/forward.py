"""Exactly once from the sender: one connection of a sender with a name, and a file sent by it.

The receiver keeps the sender's position beside its lines (`docs/formats/network_lines.md` has the
protocol), so the sender keeps nothing. Whatever was killed or cut off, the receiver knows where to
continue. `follow` sends files that grow in the same way.
"""

from __future__ import annotations

import hashlib
import logging
import os
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tutorial_pkg.connectors.network_lines.protocol import (
    MOST_WELCOME_BYTES,
    greeting,
    json_line,
    parse_object,
)
from tutorial_pkg.connectors.network_lines.sender import (
    QUOTED,
    SENDS_PER_SECOND,
    SILENT_SECONDS,
    SenderRefusedError,
    connect,
    end,
    progress_bar,
    raise_if_refused,
    receive,
)

WINDOW = 8  # blocks on their way that are not on disk yet
REPORT_SECONDS = 5.0  # until a receiver without a welcome is reported
LOOK_SECONDS = 0.1
WAIT_SECONDS = 1.0  # between two looks at the files while a receiver is slow
IN_USE_SECONDS = 3.0
_CHECKED_BYTES = 1024
_NUMBERS = ("block_bytes", "block_rows", "line_bytes", "idle_seconds")
_MACHINE_ID = Path("/etc/machine-id")

log = logging.getLogger(__name__)

Position = dict[str, Any]


class NameInUseError(SenderRefusedError):
    """Another sender with this name is connected."""


def own_instance(path: str | Path | None = None) -> str | None:
    """Return an id of this machine (and of `path`), by which a receiver notices a second one."""
    try:
        machine = _MACHINE_ID.read_bytes().strip()
    except OSError:  # containers, macOS
        return None
    parts = [machine, os.path.abspath(path).encode()] if path else [machine]  # noqa: PTH100
    return hashlib.blake2b(b"\0".join(parts), digest_size=8).hexdigest() if machine else None


# ---- One connection ------------------------------------------------------------------------------


class Exchange:
    """A connection of a sender with a name, from the receiver's `welcome` on.

    `on_wait` is called about once a second while the receiver is slow.

    Raises:
        SenderRefusedError: the receiver refuses this sender, or does not speak the protocol.
        ConnectionError: the connection broke.
    """

    def __init__(
        self,
        address: tuple[str, int],
        name: str,
        tls: ssl.SSLContext | None = None,
        instance: str | None = None,
        on_wait: Callable[[], object] = lambda: None,
    ) -> None:
        self._address = f"{address[0]}:{address[1]}"
        self._socket = connect(address, tls)
        self._on_wait = on_wait
        self._inbox = b""
        self._sent = self._stored = 0
        self._has_ended = False
        self._heard_at = self._signed_at = time.monotonic()
        self._patience = SILENT_SECONDS
        self.welcome: dict[str, Any] = {}
        try:
            self._send(greeting(name, instance))
            self.welcome = self._receive_welcome()
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
        """Start to send a block, and wait while too many others are not on disk.

        `position` holds the keys that changed; None deletes one.
        """
        self._send(json_line(bytes=len(lines), position=position) + lines)
        self._sent += 1
        self._wait(lambda: self._sent - self._stored < WINDOW)

    def rest(self, seconds: float) -> None:
        """Read replies while there is nothing to send, and give a sign of life now and then."""
        self._hear(seconds)
        self._raise_if_ended()
        if time.monotonic() - self._signed_at > self._patience / 3:
            self._signed_at = time.monotonic()
            self._send(json_line(bytes=0))

    def finish(self) -> None:
        """End this side, and return when everything is on disk."""
        self._wait(lambda: self._stored == self._sent)  # TLS cannot end while replies are to come
        end(self._socket)
        self._wait(lambda: self._has_ended)

    def _send(self, data: bytes) -> None:
        rest, is_full = memoryview(data), False
        while rest:
            try:
                self._socket.settimeout(self._step())
                count = self._socket.send(rest)
                if is_full:  # there is room again: the receiver reads
                    self._heard_at = time.monotonic()
                rest, is_full = rest[count:], count < len(rest)
            except TimeoutError:
                is_full = True
                self._on_wait()
                self._check_patience()
            except OSError as error:
                self._hear(LOOK_SECONDS)  # it may have said why
                raise ConnectionResetError(f"{self._address}: {error}") from None

    def _wait(self, is_enough: Callable[[], bool]) -> None:
        while not is_enough():
            self._raise_if_ended()
            if not self._hear(self._step()):
                self._on_wait()

    def _step(self) -> float:
        return min(WAIT_SECONDS, self._patience / 3)

    def _check_patience(self) -> None:
        if time.monotonic() - self._heard_at > self._patience:
            raise ConnectionResetError(f"{self._address} does not answer any more")

    def _hear(self, seconds: float) -> bool:
        """Take in what the receiver replies within `seconds`; return whether it has replied."""
        self._socket.settimeout(seconds)
        try:
            reply = receive(self._socket)
        except TimeoutError:
            self._check_patience()
            return False
        except ConnectionResetError:
            if self.welcome:
                raise
            raise ConnectionResetError(
                f"{self._address} broke off the connection before a welcome; perhaps it expects "
                "TLS (--tls-ca), or is not `network_lines`"
            ) from None
        self._heard_at = time.monotonic()
        self._has_ended = not reply
        self._inbox += reply
        if len(self._inbox) > MOST_WELCOME_BYTES:
            raise SenderRefusedError(f"{self._address} says too much to be `network_lines`")
        if self.welcome:
            *replies, self._inbox = self._inbox.split(b"\n")
            for text in replies:
                stored = self._parse(text).get("stored")
                if type(stored) is not int or not self._stored <= stored <= self._sent:
                    raise self._not_ours(text)
                self._stored = stored
        elif self._has_ended and self._inbox:
            raise self._not_ours(self._inbox)
        return True

    def _receive_welcome(self) -> dict[str, Any]:
        started, has_warned = time.monotonic(), False

        def is_there() -> bool:
            nonlocal has_warned
            if not has_warned and time.monotonic() - started > REPORT_SECONDS:
                log.warning(_SILENT, self._address, REPORT_SECONDS)
                has_warned = True
            return b"\n" in self._inbox

        self._wait(is_there)
        text, _, self._inbox = self._inbox.partition(b"\n")
        welcome = self._parse(text)
        if not isinstance(welcome.get("position"), dict) or not all(
            type(welcome.get(name)) in (int, float) and welcome[name] > 0 for name in _NUMBERS
        ):
            raise self._not_ours(text)
        return welcome

    def _raise_if_ended(self) -> None:
        if self._has_ended:
            raise ConnectionResetError(f"{self._address} has ended the connection")

    def _parse(self, text: bytes) -> dict[str, Any]:
        try:
            reply = parse_object(text)
        except ValueError:
            raise_if_refused(text + b"\n")
            raise self._not_ours(text) from None
        if "refused" in reply:
            error = NameInUseError if reply.get("in_use") is True else SenderRefusedError
            raise error(str(reply["refused"]))
        return reply

    def _not_ours(self, text: bytes) -> SenderRefusedError:
        shown = text[:QUOTED].decode(errors="replace")
        return SenderRefusedError(f"no `network_lines` listens at {self._address}: it says {shown}")


def open_exchange(
    address: tuple[str, int],
    name: str,
    tls: ssl.SSLContext | None = None,
    instance: str | None = None,
    on_wait: Callable[[], object] = lambda: None,
) -> Exchange:
    """Connect. If the name is in use, try again for some seconds: its sender may be dead."""
    deadline = time.monotonic() + IN_USE_SECONDS
    while True:
        try:
            return Exchange(address, name, tls, instance, on_wait)
        except NameInUseError:
            if time.monotonic() > deadline:
                raise
            time.sleep(LOOK_SECONDS)


_SILENT = (
    "%s accepted the connection %.0f s ago, without a reply so far. It may be busy (a full "
    "backlog, no free slot), or it is something else than a `network_lines` of this version."
)


# ---- A file --------------------------------------------------------------------------------------


def send_named(
    path: str | Path,
    host: str,
    port: int,
    name: str,
    rate: float | None = None,
    tls: ssl.SSLContext | None = None,
    instance: str | None = None,
) -> int:
    """Send a file's lines that the receiver does not have yet, and return their number.

    The receiver knows by `name` how many bytes of the file it has on disk. After any failure of
    either side, send again, and each line is stored once. Use a name for one file only. It returns
    when everything is on disk.

    Raises:
        ValueError: the file was replaced or truncated, a line is too long for the receiver, or the
            last line has no newline, so it may be torn. Everything before that line was sent.
        ConnectionError: as for `send_lines`.
    """
    instance = instance or own_instance()
    with (
        open(path, "rb", buffering=0) as file,
        open_exchange((host, port), name, tls, instance) as exchange,
    ):
        source = FileBlocks(Path(path), file.fileno())
        lines = source.send(exchange, rate)
        exchange.finish()
        source.check_end()
    return lines


class FileBlocks:
    """A file in blocks. A position is the next unsent byte, with digests of the bytes before it."""

    def __init__(self, path: Path, file: int) -> None:
        self._path, self._file = path, file
        self._size = os.fstat(file).st_size
        self._next = 0

    def send(self, exchange: Exchange, rate: float | None) -> int:
        """Send what the receiver lacks, and return the number of lines."""
        limits = exchange.welcome
        self._go_to(limits["position"])
        rows = limits["block_rows"] if rate is None else max(1, int(rate / SENDS_PER_SECOND))
        shown = {"total": self._size, "initial": self._next, "unit": "B", "unit_scale": True}
        started, sent = time.monotonic(), 0
        with progress_bar(**shown) as bar:
            while lines := self._read(limits, min(rows, limits["block_rows"])):
                if rate is not None:
                    time.sleep(max(0.0, started + sent / rate - time.monotonic()))
                self._next += len(lines)
                exchange.send(lines, self._position(self._next))
                sent += lines.count(b"\n")
                bar.update(len(lines))
        return sent

    def check_end(self) -> None:
        """Raise `ValueError` if the last line has no newline yet."""
        rest = os.fstat(self._file).st_size - self._next
        if rest:
            raise ValueError(
                f"{self._path}: its last {rest} bytes have no newline after them and were not "
                "sent, as the line may be torn; all lines before them are on disk. End the line, "
                "and send again"
            )

    def _go_to(self, position: Position) -> None:
        self._next = position.get("next", 0) if position else 0
        if type(self._next) is not int or self._next < 0 or (position and not self._next):
            raise ValueError(OTHER_USE)
        if position and self._position(self._next) != position:
            raise ValueError(
                f"{self._path} does not begin with the {self._next} bytes that the receiver has "
                "from this name: it was replaced or truncated. Nothing was sent; send this file "
                "under another name"
            )

    def _read(self, limits: dict[str, Any], rows: int) -> bytes:
        """Return the whole lines that fit into a block, at least one; nothing at the end."""
        data = b""
        for most, count in ((limits["block_bytes"], rows), (limits["line_bytes"] + 1, 1)):
            data = os.pread(self._file, min(most, self._size - self._next), self._next)
            lines = data[: data.rfind(b"\n") + 1]
            if lines:
                more = b"".join(lines.split(b"\n", count)[count:])
                return lines[: len(lines) - len(more)]
        if len(data) > limits["line_bytes"]:
            raise ValueError(
                f"{self._path}: the line at byte {self._next} has more than {limits['line_bytes']} "
                "bytes, and the receiver takes no longer ones (option `maxLineBytes`)"
            )
        return b""

    def _position(self, place: int) -> Position:
        length = min(place, _CHECKED_BYTES)
        head, check = os.pread(self._file, length, 0), os.pread(self._file, length, place - length)
        return {"next": place, "head": _digest(head), "check": _digest(check)}


OTHER_USE = (
    "this name was used for another kind of sending (one file, or --follow); choose another name"
)


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=8).hexdigest()
