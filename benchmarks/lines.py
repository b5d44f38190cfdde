"""The lines that are measured. Standard library only: peers import it in their own environments."""

from __future__ import annotations

import socket

LINE = b"1583309377078,0.502024,SimpleEvent(timestamp=10:09:37.000, sequence=%07d)\n"
BLOCK_LINES = 10_000
BLOCK = b"".join(LINE % number for number in range(BLOCK_LINES))


def send(client: socket.socket, lines: int) -> None:
    """Send `lines`, a multiple of BLOCK_LINES, as fast as the other side takes them."""
    for _ in range(lines // BLOCK_LINES):
        client.sendall(BLOCK)


def connect_and_send(address: tuple[str, int], lines: int) -> None:
    """The same over a connection of its own; returns when the other side has closed it."""
    with socket.create_connection(address) as client:
        send(client, lines)
        client.shutdown(socket.SHUT_WR)
        client.recv(1)
