"""Send files that grow, exactly once, until told to stop."""

from __future__ import annotations

import logging
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

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
    notes_directory,
    stream_options,
    text_of,
)
from tutorial_pkg.connectors.network_lines.forward import (
    LOOK_SECONDS,
    OTHER_USE,
    WAIT_SECONDS,
    Exchange,
    NameInUseError,
    Position,
    open_exchange,
    own_instance,
)
from tutorial_pkg.connectors.network_lines.protocol import json_line
from tutorial_pkg.connectors.network_lines.sender import SenderRefusedError
from tutorial_pkg.core.options import OptionValues
from tutorial_pkg.core.read_limit import Limits

AWAY_SECONDS = (0.2, 5.0)  # between two attempts to connect: they double
MOST_POSITION_BYTES = 60_000  # in a block's header
MOST_OPEN = 64  # files that are kept open, because they may be deleted before they are sent

log = logging.getLogger(__name__)

Part = tuple[int, TrackedFile | None, bytes]  # a file's number, where it is now, lines until there


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
    pause, was_there, warned = AWAY_SECONDS[0], False, set[bool]()
    with closing(GrowingFiles(path)) as source:
        while not stopping.is_set():
            if not source.is_there():
                stopping.wait(WAIT_SECONDS)
                continue
            try:
                context = _tls_now(tls, was_there)
                address = host, port
                with open_exchange(address, name, context, identity, source.watch) as exchange:
                    log.info("%s:%d takes the lines of %s as %s", host, port, path, name)
                    pause, was_there, warned = AWAY_SECONDS[0], True, set()
                    source.send(exchange, stopping)
                    exchange.finish()
            except (ConnectionError, TimeoutError) as error:
                is_in_use = isinstance(error, NameInUseError)
                is_certificate = isinstance(error, SenderRefusedError) and error.certificate
                may_pass = was_there and (is_in_use or is_certificate)
                if isinstance(error, SenderRefusedError) and not may_pass:
                    raise
                if is_certificate not in warned and not is_in_use:
                    text = "%s:%d is away (%s); it is tried again and again"
                    log.warning(text, host, port, error)
                    warned.add(is_certificate)
            source.watch_until(stopping, pause)
            pause = min(2 * pause, AWAY_SECONDS[1])


def _tls_now(tls: Callable[[], ssl.SSLContext | None], was_there: bool) -> ssl.SSLContext | None:
    try:
        return tls()
    except ValueError as error:
        if not was_there:
            raise
        # Files that are being renewed may not fit together for a moment.
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

    def send(self, exchange: Exchange, stopping: threading.Event) -> None:
        """Send what comes, until `stopping`."""
        limits = exchange.welcome
        self._line_bytes = limits["line_bytes"]
        tail = self._start_tail(self._resume(exchange))
        while not stopping.is_set():
            start = self._begin
            available = tail.look(start)
            if available is start:
                exchange.rest(LOOK_SECONDS)
                continue
            end = tail.take(available, Limits(limits["block_rows"], limits["block_bytes"]))
            try:
                parts = list(self._parts(start, end))
            except FileNotFoundError:  # rotated a moment ago: look again from the same position
                tail = self._start_tail(start)
                stopping.wait(LOOK_SECONDS)
                continue
            self._begin = end
            for lines, position in _blocks(parts, end.seen):
                exchange.send(lines, position)

    def _resume(self, exchange: Exchange) -> FileOffset:
        """Return the offset that the receiver has; rewrite a position of version 1."""
        position = exchange.welcome["position"]
        if position and "seen" not in position:
            raise ValueError(OTHER_USE)
        try:
            old = FileOffset.from_json({"files": {}, "seen": 0, **position})
            notes = Notes(notes_directory(self._options()))
            files: dict[int, TrackedFile | None] = {**notes.all_files(old)}
            files |= {int(n): TrackedFile(*entry) for n, entry in position.items() if n.isdigit()}
        except (AttributeError, KeyError, TypeError):
            raise ValueError(OTHER_USE) from None
        if "files" in position:
            parts = [(number, file, b"") for number, file in files.items()]
            for lines, keys in _blocks(parts, old.seen):
                exchange.send(lines, keys)
            exchange.send(b"", {"files": None, "folded": None, "seen": old.seen})
        return FileOffset(files, old.seen)

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

    def _parts(self, start: FileOffset, end: FileOffset) -> Iterator[Part]:
        """Yield what changed in each file between two offsets."""
        for number in sorted(start.files.keys() | end.files.keys()):
            before, file = start.files.get(number), end.files.get(number)
            if before == file:
                continue
            begin, lines = before.next if before else 0, b""
            if file and file.next > begin:
                chunks = chunks_of([FileRange(file, begin, file.next)], self._options())
                lines = b"".join(self._fitting(file, *chunk) for chunk in chunks)
            yield number, file, lines

    def _fitting(self, file: TrackedFile, position: int, chunk: bytes) -> bytes:
        """Return a chunk without the lines that are too long for the receiver."""
        text = text_of(chunk, position)
        if self._line_bytes >= min(len(text), LEAST_LINE_BYTES):
            return text
        lines = text.split(b"\n")[:-1]
        fitting = [line + b"\n" for line in lines if len(line) <= self._line_bytes]
        if len(fitting) < len(lines):
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


def _blocks(parts: list[Part], seen: int) -> Iterator[tuple[bytes, Position]]:
    """Pack parts into blocks with small headers."""
    lines, position, size = b"", Position(seen=seen), 0
    for number, file, more in parts:
        entry_size = len(json_line(**{str(number): file}))
        if size + entry_size > MOST_POSITION_BYTES:
            yield lines, position
            lines, position, size = b"", Position(seen=seen), 0
        lines += more
        position[str(number)] = file
        size += entry_size
    yield lines, position
