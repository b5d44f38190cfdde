"""Send files that grow, exactly once, until told to stop."""

from __future__ import annotations

import logging
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tutorial_pkg.connectors.file_lines import (
    LEAST_LINE_BYTES,
    FileOffset,
    FileRange,
    Notes,
    Tail,
    TrackedFile,
    chunks_of,
    directories_of,
    stream_options,
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
from tutorial_pkg.core.read_limit import Limits

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
    for it, says so once, and keeps looking at the files. Once it was connected, it also waits for a
    receiver that refuses it, for instance until a certificate is renewed. A line that is too long
    for the receiver is skipped with a warning.

    Args:
        tls: called at each connect, so that renewed certificates are used.
        instance: by default an id of this machine and path; a second one is refused.

    Raises:
        SenderRefusedError: the receiver refuses this sender at its first connect.
        ValueError: the path or a file cannot be read, or the name was used for something else.
    """
    stopping, identity = stopping or threading.Event(), instance or own_instance(path)
    place = Path(path).expanduser().absolute()
    if not directories_of(place):
        log.warning("%s: its directory does not exist yet; waiting for it", path)
    while not directories_of(place):
        if stopping.wait(WAIT_SECONDS):
            return
    source, was_there, warned = GrowingFiles(path), False, set[str]()

    def on_wait() -> None:
        source.watch()
        if stopping.is_set():
            raise TimeoutError("stopped while it waited")

    while not stopping.is_set():
        try:
            where = (host, port), name, _tls_now(tls), identity, on_wait
            with open_exchange(*where) as exchange:
                log.info("%s:%d takes the lines of %s as %s", host, port, path, name)
                was_there, warned = True, set()
                exchange.run(source.blocks(exchange.welcome, stopping))
        except (ConnectionError, TimeoutError) as error:
            if stopping.is_set():
                return
            is_refusal = isinstance(error, SenderRefusedError)
            if is_refusal and not was_there:
                raise
            reason = str(error) if is_refusal else ""
            if reason not in warned and not isinstance(error, NameInUseError):
                text = "%s:%d is away (%s); it is tried again and again"
                log.warning(text, host, port, error)
                warned.add(reason)
            source.watch()
            stopping.wait(WAIT_SECONDS)


def _tls_now(tls: Callable[[], ssl.SSLContext | None]) -> ssl.SSLContext | None:
    try:
        return tls()
    except ValueError as error:  # files that are being renewed may not fit together for a moment
        raise SenderRefusedError(error) from None


class GrowingFiles:
    """The files of a path, and how far they are sent.

    A position has a key for each file: its number, with what `file_lines` tracks of the file.
    `seen` counts the numbers so far.
    """

    def __init__(self, path: str | Path) -> None:
        self._options = stream_options({"path": str(path)})
        self._line_bytes = self._options.maxLineBytes
        self._tail = Tail(self._options, Notes(None), FileOffset({}))

    def watch(self) -> None:
        """Look at the files while nothing can be sent, so that a rotation is not missed."""
        self._tail.look()

    def blocks(self, welcome: dict[str, Any], stopping: threading.Event) -> Iterator[Block | None]:
        """Yield what the receiver lacks, and what comes, until `stopping`; None without news."""
        self._line_bytes = welcome["line_bytes"]
        self._options.maxLineBytes = max(LEAST_LINE_BYTES, self._line_bytes)
        limits = Limits(welcome["block_rows"], welcome["block_bytes"])
        self._look_from(_offset_of(welcome["position"]))
        while not stopping.is_set():
            if not self._tail.look():
                yield None
                continue
            start, end = self._tail.offset, self._tail.take(limits)
            try:
                blocks = list(self._changes(start, end))
            except FileNotFoundError:  # rotated a moment ago: look again from the same position
                self._look_from(start)
                stopping.wait(LOOK_SECONDS)
                continue
            yield from blocks

    def _look_from(self, begin: FileOffset) -> None:
        """Start to look from an offset, and still know files that `path` matched before."""
        self._tail = Tail(self._options, Notes(None), begin, also=self._tail.known_ids())

    def _changes(self, start: FileOffset, end: FileOffset) -> Iterator[Block]:
        """Yield a block for each file that changed between two offsets."""
        for number in sorted(start.files.keys() | end.files.keys()):
            before, file = start.files.get(number), end.files.get(number)
            if before == file:
                continue
            begin, lines = before.next if before else 0, b""
            if file and file.next > begin:
                chunks = chunks_of([FileRange(file, begin, file.next)], self._options)
                lines = b"".join(self._fitting(file.path, *chunk) for chunk in chunks)
            yield lines, {"seen": end.seen, str(number): file}

    def _fitting(self, path: str, end: int, text: bytes) -> bytes:
        """Return the lines before `end` without those that are too long for the receiver."""
        most = self._line_bytes
        if len(text) <= most:
            return text
        lines = text.split(b"\n")[:-1]
        fitting = [line + b"\n" for line in lines if len(line) <= most]
        if len(fitting) < len(lines):
            warning = "%s: skipped %d lines before byte %d, too long for the receiver (%d)"
            log.warning(warning, path, len(lines) - len(fitting), end, most)
        return b"".join(fitting)


def _offset_of(position: Position) -> FileOffset:
    """Return the offset that the receiver has."""
    try:
        seen = position["seen"] if position else 0
        numbers = {int(number): entry for number, entry in position.items() if number != "seen"}
        return FileOffset({n: TrackedFile(*entry) for n, entry in numbers.items()}, seen)
    except (KeyError, TypeError, ValueError):
        raise ValueError(OTHER_USE) from None
