"""Send files that grow, exactly once, until told to stop."""

from __future__ import annotations

import logging
import math
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from tutorial_pkg.connectors.file_lines import (
    LEAST_LINE_BYTES,
    FileOffset,
    FileRange,
    LineFile,
    Notes,
    Tail,
    TrackedFile,
    chunks_of,
    directories_of,
    stream_options,
    text_of,
)
from tutorial_pkg.connectors.network_lines.forward import (
    OTHER_USE,
    Block,
    NameInUseError,
    Position,
    open_exchange,
    own_instance,
)
from tutorial_pkg.connectors.network_lines.sender import (
    LOOK_SECONDS,
    WAIT_SECONDS,
    SenderRefusedError,
)
from tutorial_pkg.core.options import OptionValues
from tutorial_pkg.core.pauses import Tries
from tutorial_pkg.core.read_limit import Limits

MOST_OPEN = 64  # files that are kept open, because they may be deleted before they are sent

log = logging.getLogger(__name__)


def follow(
    path: str | Path,
    host: str,
    port: int,
    name: str,
    tls: Callable[[], ssl.SSLContext | None] = lambda: None,
    stopping: threading.Event | None = None,
    instance: str | None = None,
) -> None:
    """Send the lines of a file, folder or glob as they come, through rotation, until `stopping`.

    Files are read as the format `file_lines` reads them. While the receiver is away, this waits
    for it, says so once, and keeps looking at the files. A line that is too long for the receiver
    is skipped with a warning.

    Args:
        tls: called at each connect, so that renewed certificates are used. One that has expired
            is waited for like a receiver that is away.
        instance: by default an id of this machine and path; the receiver refuses a second one.

    Raises:
        SenderRefusedError: the receiver refuses this sender.
        ValueError: the path or a file cannot be read, or the name was used for something else.
    """
    stopping, identity = stopping or threading.Event(), instance or own_instance(path)
    was_there = False

    def may_pass(error: Exception) -> bool:
        if isinstance(error, SenderRefusedError):
            return was_there and (error.certificate or isinstance(error, NameInUseError))
        return isinstance(error, ConnectionError | TimeoutError)

    tries, warned = Tries(may_pass, math.inf), set[bool]()
    with closing(GrowingFiles(path)) as source:
        while not stopping.is_set():
            if not source.is_there():
                stopping.wait(WAIT_SECONDS)
                continue
            try:
                where = (host, port), name, _tls_now(tls), identity, source.watch
                with open_exchange(*where) as exchange:
                    log.info("%s:%d takes the lines of %s as %s", host, port, path, name)
                    was_there, tries, warned = True, Tries(may_pass, math.inf), set()
                    exchange.run(source.blocks(exchange.welcome, stopping))
            except OSError as error:
                pause = tries.pause_after(error)
                is_certificate = isinstance(error, SenderRefusedError) and error.certificate
                if is_certificate not in warned and not isinstance(error, NameInUseError):
                    text = "%s:%d is away (%s); it is tried again and again"
                    log.warning(text, host, port, error)
                    warned.add(is_certificate)
                source.watch_until(stopping, pause)


def _tls_now(tls: Callable[[], ssl.SSLContext | None]) -> ssl.SSLContext | None:
    try:
        return tls()
    except ValueError as error:  # files that are being renewed may not fit together for a moment
        raise SenderRefusedError(error, certificate=True) from None


class GrowingFiles:
    """The files of a path, and how far they are sent.

    A position has a key for each file: its number, with what `file_lines` tracks of the file.
    `seen` counts the numbers so far.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = str(path)
        self._line_bytes = 64 << 20
        self._begin = FileOffset({})
        self._tail: Tail | None = None
        self._open: dict[str, LineFile] = {}  # by id: unread files that may be deleted meanwhile
        self._kept: dict[str, str] = {}  # a path for each of them that outlives its name
        self._has_warned = False

    def is_there(self) -> bool:
        """Return whether there is a directory to look into; warn once if not."""
        is_there = bool(directories_of(Path(self._path).expanduser().absolute()))
        if not is_there and not self._has_warned:
            log.warning("%s: its directory does not exist yet; waiting for it", self._path)
            self._has_warned = True
        return is_there

    def watch(self) -> None:
        """Look at the files while nothing can be sent, and keep unread ones open."""
        tail = self._tail or self._start_tail(self._begin)
        tail.look(self._begin)
        unread = {file.id: file.path for file in tail.unread_files()}
        for id_ in self._open.keys() - unread.keys():
            self._open.pop(id_).close()
            del self._kept[id_]
        for id_, path in unread.items():
            if id_ not in self._open and len(self._open) < MOST_OPEN and Path(path).exists():
                lines = LineFile(path, self._line_bytes)
                self._open[lines.id] = lines
                self._kept[lines.id] = f"/dev/fd/{lines.descriptor}"

    def close(self) -> None:
        """Close the files that were kept open."""
        for lines in self._open.values():
            lines.close()

    def watch_until(self, stopping: threading.Event, seconds: float) -> None:
        """Watch for so long, or until `stopping`."""
        while seconds > 0 and not stopping.wait(min(seconds, WAIT_SECONDS)):
            self.watch()
            seconds -= WAIT_SECONDS

    def blocks(self, welcome: dict[str, Any], stopping: threading.Event) -> Iterator[Block | None]:
        """Yield what the receiver lacks, and what comes, until `stopping`; None without news."""
        self._line_bytes = welcome["line_bytes"]
        limits = Limits(welcome["block_rows"], welcome["block_bytes"])
        tail = self._start_tail(_offset_of(welcome["position"]))
        while not stopping.is_set():
            start = self._begin
            available = tail.look(start)
            if available is start:
                yield None
                continue
            end = tail.take(available, limits)
            try:
                blocks = list(self._changes(start, end))
            except FileNotFoundError:  # rotated a moment ago: look again from the same position
                tail = self._start_tail(start)
                stopping.wait(LOOK_SECONDS)
                continue
            self._begin = end
            yield from blocks

    def _options(self) -> OptionValues:
        options = stream_options({"path": self._path})
        options.maxLineBytes = max(LEAST_LINE_BYTES, self._line_bytes)
        return options

    def _start_tail(self, begin: FileOffset) -> Tail:
        """Start to look from an offset, and still know files that `path` matched before."""
        also = self._tail.known_ids() if self._tail else frozenset[str]()
        self._begin = begin
        self._tail = Tail(self._options(), Notes(None), begin, also=also, kept=self._kept)
        return self._tail

    def _changes(self, start: FileOffset, end: FileOffset) -> Iterator[Block]:
        """Yield a block for each file that changed between two offsets."""
        for number in sorted(start.files.keys() | end.files.keys()):
            before, file = start.files.get(number), end.files.get(number)
            if before == file:
                continue
            begin, lines = before.next if before else 0, b""
            if file and file.next > begin:
                chunks = chunks_of([FileRange(file, begin, file.next)], self._options())
                lines = b"".join(self._fitting(file, *chunk) for chunk in chunks)
            yield lines, {"seen": end.seen, str(number): file}

    def _fitting(self, file: TrackedFile, position: int, chunk: bytes) -> bytes:
        """Return a chunk without the lines that are too long for the receiver."""
        text = text_of(chunk, position)
        lines = text.split(b"\n")[:-1]
        if max(map(len, lines), default=0) <= self._line_bytes:
            return text
        fitting = [line + b"\n" for line in lines if len(line) <= self._line_bytes]
        log.warning(
            "%s: skipped %d lines between byte %d and %d, longer than the %d bytes that the "
            "receiver takes",
            file.path,
            len(lines) - len(fitting),
            position,
            position + len(chunk),
            self._line_bytes,
        )
        return b"".join(fitting)


def _offset_of(position: Position) -> FileOffset:
    """Return the offset that the receiver has."""
    try:
        seen = position["seen"] if position else 0
        numbers = {int(number): entry for number, entry in position.items() if number != "seen"}
        return FileOffset({n: TrackedFile(*entry) for n, entry in numbers.items()}, seen)
    except (KeyError, TypeError, ValueError):
        raise ValueError(OTHER_USE) from None
