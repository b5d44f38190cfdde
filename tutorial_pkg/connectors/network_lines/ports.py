"""A listening socket for each port, and file descriptors for all clients that connect to it."""

from __future__ import annotations

import errno
import re
import resource
import socket
import time
from collections.abc import Sequence
from pathlib import Path

WAITING_CONNECTIONS = 1024
DESCRIPTORS_PER_PORT = 10  # its sockets, its selector, its log, and some in use for a moment
DESCRIPTORS_IN_RESERVE = 50

_ADDRESS = re.compile(r"[A-Za-z0-9_.:-]+(%[A-Za-z0-9_.-]+)?")


def host_address(text: str) -> str:
    """Parse an address to listen on: IPv4, IPv6 with or without brackets, or a name."""
    address = text.removeprefix("[").removesuffix("]") if text.startswith("[") else text
    if not _ADDRESS.fullmatch(address):
        raise ValueError
    return address


def have_descriptors(ports: int, connections: int) -> None:
    """Raise the system's limit to the file descriptors that `ports` full ports need.

    Without them, one connection too many would take the descriptor that the log needs for its next
    file. Raises `OSError` if the limit cannot be raised that far.
    """
    more = ports * (connections + DESCRIPTORS_PER_PORT) + DESCRIPTORS_IN_RESERVE
    needed = len(list(Path("/dev/fd").iterdir())) + more
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or needed <= soft:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
    except (ValueError, OSError):  # more than the hard limit, or than the kernel allows
        raise OSError(
            errno.EMFILE,
            f"{connections} connections (option `maxConnections`) to each of {ports} ports (option "
            f"`parallelism`) need {needed} file descriptors, and this process may have {hard}; "
            "lower an option, or raise the limit (`ulimit -n`, LimitNOFILE) before the driver "
            "starts",
        ) from None


def bind_all(host: str, ports: Sequence[int], patience: float) -> dict[int, socket.socket]:
    """Return a listening socket for each port. After an error none is left open."""
    deadline = time.monotonic() + patience
    sockets: dict[int, socket.socket] = {}
    try:
        for port in ports:
            sockets[port] = _bind(host, port, deadline)
    except OSError:
        for bound in sockets.values():
            bound.close()
        raise
    return sockets


def _bind(host: str, port: int, deadline: float) -> socket.socket:
    """Listen on a port. A query that was just killed may occupy it for some seconds more."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    while True:
        try:
            bound = socket.create_server((host, port), family=family, backlog=WAITING_CONNECTIONS)
        except OSError as error:
            if error.errno == errno.EADDRINUSE and time.monotonic() <= deadline:
                time.sleep(0.1)
                continue
            reason = str(error.strerror).split(" (")[0]
            raise OSError(
                error.errno,
                f"cannot listen on {host}:{port}: {reason}. If another program or query uses it, "
                "stop that one or choose another option `port`; `host` must be an address of this "
                "machine",
            ) from None
        bound.setblocking(False)
        return bound
