"""Exactly once from the sender: a connection of a sender with a name, and a file sent over it.

The receiver stores the sender's position beside its lines, so the sender stores nothing.
"""

from __future__ import annotations

import hashlib
import os
import ssl
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tutorial_pkg.connectors.file_lines import LineFile, TrackedFile
from tutorial_pkg.connectors.network_lines.protocol import (
    MOST_WELCOME_BYTES,
    greeting,
    json_line,
    parse_object,
)
from tutorial_pkg.connectors.network_lines.sender import (
    LOOK_SECONDS,
    QUOTED,
    Channel,
    SenderRefusedError,
    lines_at_once,
    raise_if_refused,
    wait_for_turn,
)
from tutorial_pkg.core.waiting import Tries

WINDOW = 8  # blocks on their way that are not on disk yet
IN_USE_SECONDS = 3.0
INSTANCE = "instance"  # the key of a position that says who uses the name
_CHECKED_BYTES = 1024
_NUMBERS = ("block_bytes", "block_rows", "line_bytes", "idle_seconds")
_MACHINE_ID = Path("/etc/machine-id")
OTHER_USE = (
    "this name was used for another kind of sending (one file, or --follow), or by an earlier "
    "release; choose another name"
)

Position = dict[str, Any]
Block = tuple[bytes, Position]  # lines, and the keys of the position that changed


class NameInUseError(SenderRefusedError):
    """Another sender with this name is connected."""


def own_instance(path: str | Path | None = None) -> str | None:
    """Return an id of this machine (and of `path`), by which a second one is noticed."""
    try:
        machine = _MACHINE_ID.read_bytes().strip()
    except OSError:  # containers, macOS
        return None
    parts = [machine, os.path.abspath(path).encode()] if path else [machine]  # noqa: PTH100
    return hashlib.blake2b(b"\0".join(parts), digest_size=8).hexdigest() if machine else None


# ---- One connection ------------------------------------------------------------------------------


class Exchange(Channel):
    """A connection of a sender with a name, from the receiver's `welcome` on."""

    def __init__(
        self,
        address: tuple[str, int],
        name: str,
        tls: ssl.SSLContext | None = None,
        instance: str | None = None,
        on_wait: Callable[[], object] = lambda: None,
    ) -> None:
        super().__init__(address, tls, on_wait=on_wait)
        self._inbox = b""
        self._sent = self._stored = 0
        self._signed_at = time.monotonic()
        self.welcome: dict[str, Any] = {}
        try:
            self.send(greeting(name))
            while not self.welcome:
                self.take(self.wait())
            self.patience = self.welcome["idle_seconds"]
            self._claim(name, instance)
        except BaseException:
            self.close()
            raise

    def run(self, blocks: Iterable[Block | None]) -> int:
        """Send blocks, and return their number of lines when all are on disk.

        None stands for nothing to send yet.
        """
        lines = 0
        for block in blocks:
            if block is None:
                self.rest(LOOK_SECONDS)
            else:
                self.send_block(*block)
                lines += block[0].count(b"\n")
        while self._stored < self._sent:
            self.take(self.wait())
        return lines

    def send_block(self, lines: bytes, position: Position) -> None:
        """Start to send a block, and wait while too many others are not on disk.

        `position` holds the keys that changed; None deletes one.
        """
        self.send(json_line(bytes=len(lines), position=position) + lines)
        self._sent += 1
        while self._sent - self._stored >= WINDOW:
            self.take(self.wait())

    def rest(self, seconds: float) -> None:
        """Read replies while there is nothing to send, and exchange signs of life now and then."""
        if (reply := self.receive(seconds)) is not None:
            self.take(reply)
        if time.monotonic() - self._signed_at > self.patience / 3:
            self._signed_at = time.monotonic()
            self.send(json_line(bytes=0))
            self.take(self.wait())

    def take(self, reply: bytes) -> None:
        *replies, self._inbox = (self._inbox + reply).split(b"\n")
        for text in replies:
            self._take_line(text)
        if len(self._inbox) > MOST_WELCOME_BYTES or (self._inbox and not reply):
            self._take_line(self._inbox)
        if not reply:
            raise ConnectionResetError(f"{self.where} has ended the connection")

    def _take_line(self, text: bytes) -> None:
        try:
            reply = parse_object(text)
        except ValueError:
            raise_if_refused(text + b"\n")
            reply = {}
        if "refused" in reply:
            error = NameInUseError if reply.get("in_use") is True else SenderRefusedError
            raise error(str(reply["refused"]))
        stored = reply.get("stored")
        if self.welcome and type(stored) is int and self._stored <= stored <= self._sent:
            self._stored = stored
        elif not self.welcome and _is_welcome(reply):
            self.welcome = reply
        else:
            shown = text[:QUOTED].decode(errors="replace")
            raise SenderRefusedError(
                f"no `network_lines` listens at {self.where}, or one of another release; it says "
                f"{shown}"
            )

    def _claim(self, name: str, own: str | None) -> None:
        """Raise `SenderRefusedError` if the name belongs to another instance."""
        known = self.welcome["position"].pop(INSTANCE, None)
        if own and known is None:
            self.send_block(b"", {INSTANCE: own})
        elif own and own != known:
            raise SenderRefusedError(
                f"the name {name!r} belongs to another sender (instance {known}); this one is "
                f"instance {own}. Choose another name, or, if this sender replaces that one, "
                f"start it with --instance {known}"
            )


def _is_welcome(reply: dict[str, Any]) -> bool:
    numbers = [reply.get(name, 0) for name in _NUMBERS]
    are_valid = all(type(number) in (int, float) and number > 0 for number in numbers)
    return are_valid and isinstance(reply.get("position"), dict)


def open_exchange(*where: Any) -> Exchange:
    """Connect. If the name is in use, try again for some seconds: its sender may be dead."""

    def is_in_use(error: Exception) -> bool:
        return isinstance(error, NameInUseError)

    return Tries(is_in_use, IN_USE_SECONDS, LOOK_SECONDS).patiently(lambda: Exchange(*where))


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
        ConnectionError, TimeoutError: as for `send_lines`.
    """
    instance = instance or own_instance()
    with (
        LineFile(str(path), sys.maxsize) as file,
        open_exchange((host, port), name, tls, instance) as exchange,
    ):
        start = _start_of(file, exchange.welcome["position"])
        stop = file.last_line_end(start, file.size)
        sent = exchange.run(_blocks_of(file, start, stop, exchange.welcome, rate))
    if stop < file.size:
        raise ValueError(
            f"{path}: its last {file.size - stop} bytes have no newline after them and were not "
            "sent, as the line may be torn; all lines before them are on disk. End the line, and "
            "send again"
        )
    return sent


def _start_of(file: LineFile, position: Position) -> int:
    """Return how much of the file the receiver has. Raises `ValueError` if it differs."""
    if not position:
        return 0
    start = position.get("next")
    if type(start) is not int or start <= 0:
        raise ValueError(OTHER_USE)
    head = position.get("head") if start >= _CHECKED_BYTES else None
    if not file.holds(TrackedFile("", "", start, str(position.get("check")), head)):
        raise ValueError(
            f"{file.path} does not begin with the {start} bytes that the receiver has from this "
            "name: it was replaced or truncated. Nothing was sent; send this file under another "
            "name"
        )
    return start


def _blocks_of(
    file: LineFile, start: int, stop: int, limits: Mapping[str, Any], rate: float | None
) -> Iterator[Block]:
    """Yield the lines in `start`..`stop`; the position has digests of the bytes before it."""
    rows, sent, started = lines_at_once(limits["block_rows"], rate), 0, time.monotonic()
    while start < stop:
        wait_for_turn(started, sent, rate)
        end = file.last_line_end(start, min(start + limits["block_bytes"], stop))
        if end == start:  # one line, longer than a block
            end = file.line_end(start, stop)
            if end - start - 1 > limits["line_bytes"]:
                raise ValueError(
                    f"{file.path}: the line at byte {start} has more than {limits['line_bytes']} "
                    "bytes, and the receiver takes no longer ones (option `maxLineBytes`)"
                )
        end, count = file.end_of_lines(start, end, rows)
        lines = os.pread(file.fileno(), end - start, start)
        read = file.tracked(end)  # after the lines: it notices that the file was cut off
        yield lines, {"next": end, "head": read.head, "check": read.check}
        start, sent = end, sent + count
