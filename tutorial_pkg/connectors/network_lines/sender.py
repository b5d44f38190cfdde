"""Send lines to a TCP port, all at once or as if they happened now, with a progress bar."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import cycle, islice
from pathlib import Path

from tqdm import tqdm

LINES_AT_ONCE = 10_000
SENDS_PER_SECOND = 20
COUNTED_AT_ONCE = 1024 * 1024


def send_lines(
    host: str,
    port: int,
    lines: Iterable[str | bytes],
    rate: float | None = None,
    connections: int = 1,
) -> int:
    """Send `lines` to `host`:`port`, each ended by a newline, and return their number.

    `rate` is in lines per second, all together; None is as fast as the receiver takes them. With
    several `connections` they take turns, a group of lines each. Returns when the receiver has
    closed its end, which `network_lines` does as soon as all lines are in its log.

    Raises `ConnectionRefusedError` if nothing listens there, `ConnectionError` if a connection
    breaks, and `ValueError` for a bad `rate` or `connections` or a line with a newline inside.
    """
    total = len(lines) if isinstance(lines, Sequence) else None
    return _send_all((host, port), lines, total, rate, connections)


def send_file(
    path: str | Path, host: str, port: int, rate: float | None = None, connections: int = 1
) -> int:
    """Send a file's lines as `send_lines` does, and return their number."""
    with Path(path).open("rb") as file:
        total = sum(block.count(b"\n") for block in iter(lambda: file.read(COUNTED_AT_ONCE), b""))
        file.seek(0)
        return _send_all((host, port), file, total, rate, connections)


def _send_all(
    address: tuple[str, int],
    lines: Iterable[str | bytes],
    total: int | None,
    rate: float | None,
    connections: int,
) -> int:
    if rate is not None and not rate > 0:
        raise ValueError(f"`rate` must be more than 0 lines per second, or None, got {rate!r}")
    if connections < 1:
        raise ValueError(f"`connections` must be 1 or more, got {connections!r}")
    with ExitStack() as opened:
        sockets = [opened.enter_context(_connect(address)) for _ in range(connections)]
        # In a terminal only: a cell of a notebook should stay clean.
        bar = opened.enter_context(tqdm(total=total, unit=" lines", disable=None))
        sent = 0
        try:
            for connected, group in zip(cycle(sockets), _paced(lines, rate), strict=False):
                connected.sendall(_joined(group))
                sent += len(group)
                bar.update(len(group))
            _wait_until_received(sockets)
        except ConnectionError as error:
            raise ConnectionError(_broken_text(address, sent)) from error
        return sent


def _connect(address: tuple[str, int]) -> socket.socket:
    try:
        return socket.create_connection(address)
    except ConnectionRefusedError:
        raise ConnectionRefusedError(
            f"nothing listens on {address[0]}:{address[1]}; start the query first, and look "
            "whether `network_status(path)` says that it waits for connections"
        ) from None


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
        raise ValueError(f"a line cannot have a newline inside, got {inside[:120]!r}")
    return data


def _ended(line: str | bytes) -> bytes:
    """The line's bytes with the newline at their end, whether it was there or not."""
    data = line.encode() if isinstance(line, str) else line
    return data if data.endswith(b"\n") else data + b"\n"


def _wait_until_received(sockets: list[socket.socket]) -> None:
    """Say on every connection that this is all, and wait for the receiver's close."""
    for connected in sockets:
        try:
            connected.shutdown(socket.SHUT_WR)
        except OSError as error:  # "not connected": the receiver has reset it already
            raise ConnectionResetError(error.errno, error.strerror) from error
    for connected in sockets:
        while connected.recv(4096):
            pass


def _broken_text(address: tuple[str, int], sent: int) -> str:
    return (
        f"the connection to {address[0]}:{address[1]} broke after about {sent} lines; what the "
        "receiver had not written to its log by then is lost"
    )
