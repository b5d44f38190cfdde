"""A receiver of its own: it keeps the ports open and writes the log while queries come and go.

`python -m tutorial_pkg receive var/network-log --port 11000` runs one until SIGTERM or Ctrl-C.
`durable_log.handover` says what it and the query tell each other.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from tutorial_pkg.connectors.network_lines.data_source import OPTIONS, parse_options, start_listener
from tutorial_pkg.core.options import OptionValues
from tutorial_pkg.durable_log.group import Backlog, LogGroup
from tutorial_pkg.durable_log.handover import Published

PUBLISH_SECONDS = 0.01  # longest time until queries learn of a line
POLL_SECONDS = 0.05
OF_QUERIES = {"path", "includeMetadata", "eventTime", "mode"}
RECEIVER_OPTIONS = [each for each in OPTIONS.declared.values() if each.name not in OF_QUERIES]


def receive(path: str | Path, options: Mapping[str, str], stopping: threading.Event) -> None:
    """Receive into the log in `path` until `stopping` is set; `options` as of `network_lines`.

    What a connection has sent in whole lines by then is on disk; connections that are open are
    reset, so their senders know. If systemd started it, it tells systemd when it is ready and when
    it ends.

    Raises `ValueError` for an option, `OSError` for ports that cannot be had and for a disk that
    is full, `LogLockedError` when a query or another receiver writes the log, `LogDamagedError`.
    """
    given = parse_options({**options, "path": str(path)})
    with _opened(given) as (logs, published):
        backlog = Backlog(logs.writers, given.maxBacklogBytes)
        backlog.processed(published.hear())
        with closing(start_listener(given, logs, backlog)) as listener:
            notify("READY=1")
            while not stopping.wait(PUBLISH_SECONDS):
                listener.raise_failure()
                published.tell()
                backlog.processed(published.hear())
                logs.wait_for_more(logs.end(), POLL_SECONDS)
            notify("STOPPING=1")
        listener.raise_failure()


@contextmanager
def _opened(options: OptionValues) -> Iterator[tuple[LogGroup, Published]]:
    ports = range(options.port, options.port + options.parallelism)
    with closing(LogGroup(Path(options.path).resolve(), ports, "port")) as logs:
        published = Published(logs)
        published.tell()
        try:
            yield logs, published
        finally:
            published.tell()


def notify(state: str) -> None:
    """Tell systemd, if it wants to know (`Type=notify`)."""
    place = os.environ.get("NOTIFY_SOCKET")
    if not place:
        return
    address = f"\0{place[1:]}" if place.startswith("@") else place  # one without a file
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.sendto(state.encode(), address)
