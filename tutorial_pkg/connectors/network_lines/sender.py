"""Send lines to a TCP port, all at once or as if they happened now, with a progress bar."""

from __future__ import annotations

import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, nullcontext
from itertools import islice
from types import SimpleNamespace
from typing import Any

from tutorial_pkg.connectors.network_lines.channel import (
    QUOTED,
    SILENT_SECONDS,
    Channel,
    SenderRefusedError,
    raise_if_refused,
)
from tutorial_pkg.connectors.network_lines.protocol import dropped_in

LINES_AT_ONCE = 10_000
SENDS_PER_SECOND = 20
_UNKNOWN = "lines that the receiver had not written to its log by then are lost"


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
        connections: each has a thread, and takes the next group of lines when it is free.
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
    if rate is not None and not rate > 0:
        raise ValueError(f"`rate` must be more than 0 lines per second, or None, got {rate!r}")
    if connections < 1:
        raise ValueError(f"`connections` must be 1 or more, got {connections!r}")
    total = len(lines) if isinstance(lines, Sequence) else None
    groups, turn, sent = _paced(lines, rate), threading.Lock(), 0
    with ExitStack() as opened:
        channels = [
            opened.enter_context(Channel((host, port), tls, timeout)) for _ in range(connections)
        ]
        bar = opened.enter_context(progress_bar(total=total, unit=" lines"))

        def feed(channel: Channel) -> Counter[str]:
            nonlocal sent
            while True:
                with turn:
                    group = next(groups, None)
                    if group is None:
                        break
                    sent += len(group)
                    bar.update(len(group))
                channel.send(_joined(group))
            return finish(channel)

        try:
            dropped = sum(_each(channels, feed), Counter[str]())
        except SenderRefusedError:
            raise
        except TimeoutError as error:
            raise TimeoutError(f"{error}; {_UNKNOWN}") from None
        except ConnectionError as error:
            text = f"the connection to {host}:{port} broke after about {sent} lines; {_UNKNOWN}"
            raise ConnectionError(text) from error
    if dropped:
        counts = ", ".join(f"{count} {reason}" for reason, count in sorted(dropped.items()))
        raise LinesDroppedError(
            f"{host}:{port} dropped {dropped.total()} of {sent} lines ({counts}); the others are "
            "in its log. The query's option `maxLineBytes` says how long a line may be"
        )
    return sent


def _each(
    channels: list[Channel], feed: Callable[[Channel], Counter[str]]
) -> Iterator[Counter[str]]:
    """Call `feed` for every channel, each on a thread; after an error the others end, too."""
    if len(channels) == 1:  # without a thread, so that Ctrl-C ends a wait for the next line
        yield feed(channels[0])
        return
    with ThreadPoolExecutor(len(channels)) as threads:
        try:
            for ended in as_completed([threads.submit(feed, channel) for channel in channels]):
                yield ended.result()
        finally:
            for channel in channels:
                channel.interrupt()


def finish(channel: Channel) -> Counter[str]:
    """End this side, wait until the receiver closes, and return the lines that it dropped."""
    early = channel.receive(0)
    if early == b"":  # a close confirms only lines before this side's end
        raise ConnectionResetError("the receiver has ended before the sender")
    reply = early or b""
    raise_if_refused(reply)
    channel.end()
    try:
        while more := channel.wait():
            reply += more
            raise_if_refused(reply)
    except ConnectionResetError:
        if not dropped_in(reply):  # it reported the reason before
            raise
    raise_if_refused(reply)
    return Counter(dropped_in(reply))


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


def progress_bar(**shown: Any) -> Any:
    """Return a bar for a terminal; a notebook's cell stays clean, and so it does without `tqdm`."""
    try:
        from tqdm import tqdm  # not in each process that imports a connector
    except ModuleNotFoundError:  # extra `progress`
        return nullcontext(SimpleNamespace(update=lambda _: None))
    return tqdm(**shown, disable=None)
