from __future__ import annotations

import socket
import threading
from collections.abc import Callable

from tutorial_pkg.core.ports import is_free

HOST = "127.0.0.1"


def test_port_with_a_listener_is_busy(free_ports: Callable[[int], int]) -> None:
    port = free_ports(1)
    assert is_free(port)
    with socket.create_server((HOST, port)):
        assert not is_free(port)
    assert is_free(port)


def test_probing_does_not_block_a_server(free_ports: Callable[[int], int]) -> None:
    port, looked, ended = free_ports(1), threading.Event(), threading.Event()

    def look_all_the_time() -> None:
        while not ended.is_set():
            is_free(port)
            looked.set()

    looker = threading.Thread(target=look_all_the_time)
    looker.start()
    try:
        assert looked.wait(30)
        for _ in range(500):
            socket.create_server((HOST, port)).close()
    finally:
        ended.set()
        looker.join()
