"""Is a port of this machine's loopback free?"""

from __future__ import annotations

import socket

LOOPBACK = "127.0.0.1"


def is_free(port: int) -> bool:
    """Return whether the port is free. A server that starts in the same moment still gets it."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True
