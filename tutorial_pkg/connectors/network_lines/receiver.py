"""A separate receiver: it keeps the ports open and writes the log while queries come and go.

`python -m tutorial_pkg receive var/network-log --port 11000` runs one until SIGTERM or Ctrl-C.
`durable_log.handover` describes the files through which it and the query communicate.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Mapping
from contextlib import ExitStack, closing
from pathlib import Path

from tutorial_pkg.connectors.network_lines.data_source import OPTIONS, parse_options, ports_of
from tutorial_pkg.connectors.network_lines.listener import Listener
from tutorial_pkg.durable_log.group import LogGroup
from tutorial_pkg.durable_log.handover import Handover

PUBLISH_SECONDS = 0.01  # longest time until queries learn of a line
POLL_SECONDS = 0.05
QUERY_OPTIONS = {"path", "includeMetadata", "eventTime", "mode"}
RECEIVER_OPTIONS = [
    option for option in OPTIONS.declared.values() if option.name not in QUERY_OPTIONS
]


def receive(path: str | Path, options: Mapping[str, str], stopping: threading.Event) -> None:
    """Receive into the log in `path` until `stopping` is set; `options` as of `network_lines`.

    Whole lines that were received by then are on disk. Open connections are reset, so their senders
    know. If systemd started it, the receiver reports to systemd when it is ready and when it stops.

    Raises `ValueError` for an option, `OSError` for a port in use and for a full disk,
    `LogLockedError` when a query or another receiver writes the log, `LogDamagedError`.
    """
    values = parse_options({**options, "path": str(path)})
    folder = Path(values.path).resolve()
    with ExitStack() as opened:
        group = LogGroup(folder, ports_of(values), "port", values.maxBacklogBytes)
        logs = opened.enter_context(closing(group))
        published = Handover(logs)
        published.read_query()
        with closing(Listener(logs, values)) as listener:
            published.publish()
            opened.callback(published.publish)
            notify("READY=1")
            while not stopping.wait(PUBLISH_SECONDS):
                listener.raise_failure()
                published.publish()
                published.read_query()
                logs.wait_for_more(logs.end(), POLL_SECONDS)
            notify("STOPPING=1")
        listener.raise_failure()


def notify(state: str) -> None:
    """Report to systemd, if it asks for it (`Type=notify`)."""
    name = os.environ.get("NOTIFY_SOCKET")
    if not name:
        return
    address = f"\0{name[1:]}" if name.startswith("@") else name  # a socket without a file
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.sendto(state.encode(), address)
