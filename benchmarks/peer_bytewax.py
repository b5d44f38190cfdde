"""Runs Bytewax flows on request, in Bytewax's own environment: see `bench_peers.py`.

A request is a line of JSON on the standard input, [kind, lines, file]; the answer is a line with
the seconds. Bytewax has no source that listens, so here is one of a few lines, as its users write
it: it keeps what it has not cut yet, and can neither replay nor tell how far it is.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any

import bytewax.operators as op
from bytewax.connectors.files import FileSource
from bytewax.dataflow import Dataflow
from bytewax.inputs import DynamicSource, StatelessSourcePartition
from bytewax.outputs import DynamicSink, StatelessSinkPartition
from bytewax.testing import run_main
from lines import connect_and_send

BATCH_LINES = 10_000
RECEIVE_BYTES = 256 * 1024


class Discard(DynamicSink):
    def build(self, step_id: str, worker_index: int, worker_count: int) -> StatelessSinkPartition:
        return DiscardPartition()


class DiscardPartition(StatelessSinkPartition):
    def write_batch(self, items: list[Any]) -> None:
        pass


class Listening(DynamicSource):
    def __init__(self, server: socket.socket) -> None:
        self._server = server

    def build(self, step_id: str, worker_index: int, worker_count: int) -> StatelessSourcePartition:
        return Connection(self._server.accept()[0])


class Connection(StatelessSourcePartition):
    """The lines of one sender, until it closes."""

    def __init__(self, client: socket.socket) -> None:
        self._client, self._rest = client, b""

    def next_batch(self) -> list[str]:
        received = self._client.recv(RECEIVE_BYTES)
        if not received:
            self._client.close()  # the sender waits for this
            raise StopIteration
        *lines, self._rest = (self._rest + received).split(b"\n")
        return [line.decode() for line in lines]


def from_file(_: int, file: str) -> float:
    return run(FileSource(Path(file), batch_size=BATCH_LINES))


def from_socket(lines: int, _: str) -> float:
    with socket.create_server(("127.0.0.1", 0)) as server:
        sender = threading.Thread(target=connect_and_send, args=(server.getsockname(), lines))
        sender.start()
        took = run(Listening(server))
        sender.join()
    return took


def run(source: Any) -> float:
    flow = Dataflow("lines")
    op.output("discard", op.input("lines", flow, source), Discard())
    started = time.perf_counter()
    run_main(flow)
    return time.perf_counter() - started


def main() -> None:
    for request in sys.stdin:
        kind, lines, file = json.loads(request)
        took = {"socket": from_socket, "file": from_file}[kind](lines, file)
        print(json.dumps(took), flush=True)


if __name__ == "__main__":
    main()
