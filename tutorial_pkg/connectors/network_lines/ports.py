"""A listening socket for each port, and file descriptors for all that connect to it."""

from __future__ import annotations

import errno
import re
import resource
import socket
import time
from collections.abc import Sequence
from pathlib import Path

from tutorial_pkg.durable_log.lock import RETRY_SECONDS

WAITING_CONNECTIONS = 1024
DESCRIPTORS_OF_A_PORT = 10  # its sockets, its selector, its log, and what is in use for a moment
DESCRIPTORS_IN_RESERVE = 50

_ADDRESS = re.compile(r"[A-Za-z0-9_.:-]+(%[A-Za-z0-9_.-]+)?")


def host_address(text: str) -> str:
    """A parser for what one can listen on: IPv4, IPv6 with or without brackets, or a name."""
    address = text.removeprefix("[").removesuffix("]") if text.startswith("[") else text
    if not _ADDRESS.fullmatch(address):
        raise ValueError
    return address


def have_descriptors(ports: int, connections: int) -> None:
    """Have the system allow as many file descriptors as `ports` full ports need.

    Without them, a connection too many would take the one that the log needs for its next file.
    Raises `OSError` if the limit cannot be raised so far.
    """
    more = ports * (connections + DESCRIPTORS_OF_A_PORT) + DESCRIPTORS_IN_RESERVE
    wanted = len(list(Path("/dev/fd").iterdir())) + more
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or wanted <= soft:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (ValueError, OSError):  # more than the hard limit, or than the kernel knows
        raise OSError(errno.EMFILE, _descriptors_text(ports, connections, wanted, hard)) from None


def _descriptors_text(ports: int, connections: int, wanted: int, hard: int) -> str:
    return (
        f"{connections} connections (option `maxConnections`) to each of {ports} ports (option "
        f"`parallelism`) need {wanted} file descriptors, and this process may have {hard}; lower "
        "an option, or raise the limit (`ulimit -n`, LimitNOFILE) before the driver starts"
    )


def bind_all(host: str, ports: Sequence[int], patience: float) -> dict[int, socket.socket]:
    """A listening socket for each port, or none and an error."""
    deadline = time.monotonic() + patience
    sockets: dict[int, socket.socket] = {}
    try:
        for port in ports:
            sockets[port] = bind(host, port, deadline)
    except OSError:
        for bound in sockets.values():
            bound.close()
        raise
    return sockets


def bind(host: str, port: int, deadline: float) -> socket.socket:
    """Listen on a port, which a query that was just killed may hold for some seconds more."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    while True:
        try:
            bound = socket.create_server((host, port), family=family, backlog=WAITING_CONNECTIONS)
        except OSError as error:
            if error.errno != errno.EADDRINUSE or time.monotonic() > deadline:
                raise OSError(error.errno, _bind_text(host, port, error)) from None
            time.sleep(RETRY_SECONDS)
        else:
            bound.setblocking(False)
            return bound


def _bind_text(host: str, port: int, error: OSError) -> str:
    reason = str(error.strerror).split(" (")[0]
    return (
        f"cannot listen on {host}:{port}: {reason}. If another program or query "
        "uses it, stop that one or choose another option `port`; `host` must be an address of "
        "this machine"
    )
