"""Runs Bytewax flows on request, in Bytewax's own environment: see `bench_peers.py`.

A request is a line of JSON on the standard input, [kind, lines, file]; the answer is a line with
the seconds.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import bytewax.operators as op
from bytewax.connectors.files import FileSource
from bytewax.dataflow import Dataflow
from bytewax.outputs import DynamicSink, StatelessSinkPartition
from bytewax.testing import run_main

BATCH_LINES = 10_000


class Discard(DynamicSink):
    def build(self, step_id: str, worker_index: int, worker_count: int) -> StatelessSinkPartition:
        return DiscardPartition()


class DiscardPartition(StatelessSinkPartition):
    def write_batch(self, items: list[Any]) -> None:
        pass


def main() -> None:
    for request in sys.stdin:
        _, _, file = json.loads(request)
        flow = Dataflow("lines")
        lines = op.input("lines", flow, FileSource(Path(file), batch_size=BATCH_LINES))
        op.output("discard", lines, Discard())
        started = time.perf_counter()
        run_main(flow)
        print(json.dumps(time.perf_counter() - started), flush=True)


if __name__ == "__main__":
    main()
