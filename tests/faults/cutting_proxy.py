"""A port that leads to another one, and whose connections can be cut in the middle of a line."""

from __future__ import annotations

import contextlib
import random
import socket
import sys
import threading

HOST = "127.0.0.1"
_RESET = b"\1\0\0\0\0\0\0\0"


class CuttingProxy:
    """Leads each connection to the port `target`; `cut` ends all that are open, with resets.

    So does a connection end by itself after `most` bytes to the target, and each one at once
    between `refuse` and `accept`.
    """

    def __init__(self, target: int, seed: int = 27) -> None:
        self.target, self._chance = target, random.Random(seed)
        self.most = sys.maxsize
        self.connections = 0  # so far
        self._server = socket.create_server((HOST, 0))
        self.port = self._server.getsockname()[1]
        self._open: list[socket.socket] = []
        self._cutting, self._was_cut = threading.Event(), threading.Event()
        self._refusing = threading.Event()
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def __enter__(self) -> CuttingProxy:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self._end_all()
        for thread in self._threads:
            thread.join()

    def cut(self) -> None:
        """What comes next gets through in part; if nothing does, all is cut after a second."""
        self._was_cut.clear()
        self._cutting.set()
        self._was_cut.wait(1)
        self._end_all()
        self._cutting.clear()

    def refuse(self) -> None:
        """From now on it is as if the target were away."""
        self._refusing.set()
        self._end_all()

    def accept(self) -> None:
        self._refusing.clear()

    def _end_all(self) -> None:
        opened, self._open = self._open, []
        for each in opened:
            _reset(each)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                client, _ = self._server.accept()
                try:
                    there = socket.create_connection((HOST, self.target))
                except OSError:
                    client.close()
                    continue
                self._open += [client, there]
                if self._refusing.is_set():  # asked last: `refuse` may have come meanwhile
                    self._end_all()
                    continue
                self.connections += 1
                for way in ((client, there, self.most), (there, client, sys.maxsize)):
                    thread = threading.Thread(target=self._pump, args=way, daemon=True)
                    self._threads.append(thread)
                    thread.start()

    def _pump(self, source: socket.socket, target: socket.socket, most: int) -> None:
        try:
            while data := source.recv(min(most, 65536)):
                if self._cutting.is_set():
                    target.sendall(data[: self._chance.randrange(len(data))])
                    self._was_cut.set()
                    return
                target.sendall(data)
                most -= len(data)
            if most:
                target.shutdown(socket.SHUT_WR)
                return
        except OSError:  # one side is gone: so is the connection
            pass
        _reset(source)
        _reset(target)


def _reset(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        end.shutdown(socket.SHUT_RDWR)
        end.close()
