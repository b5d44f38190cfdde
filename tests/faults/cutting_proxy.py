"""A port that leads to another one, and whose connections can be cut in the middle of a line."""

from __future__ import annotations

import contextlib
import random
import socket
import threading
import time

HOST = "127.0.0.1"
_RESET = b"\1\0\0\0\0\0\0\0"


class CuttingProxy:
    """Leads each connection to `target`; `cut` ends all that are open, with resets."""

    def __init__(self, target: int, seed: int = 27) -> None:
        self._target, self._chance = target, random.Random(seed)
        self._server = socket.create_server((HOST, 0))
        self.port = self._server.getsockname()[1]
        self._open: list[socket.socket] = []
        self._cutting = threading.Event()
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def __enter__(self) -> CuttingProxy:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self.cut()
        for thread in self._threads:
            thread.join(10)

    def cut(self) -> None:
        """What is under way gets through in part."""
        self._cutting.set()
        time.sleep(0.02)
        opened, self._open = self._open, []
        for each in opened:
            _reset(each)
        self._cutting.clear()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                client, _ = self._server.accept()
                try:
                    there = socket.create_connection((HOST, self._target))
                except OSError:
                    client.close()
                    continue
                self._open += [client, there]
                for ends in ((client, there), (there, client)):
                    thread = threading.Thread(target=self._pump, args=ends, daemon=True)
                    self._threads.append(thread)
                    thread.start()

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                if self._cutting.is_set():
                    target.sendall(data[: self._chance.randrange(len(data))])
                    return
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:  # one side is gone: so is the connection
            _reset(source)
            _reset(target)


def _reset(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        end.shutdown(socket.SHUT_RDWR)
        end.close()
