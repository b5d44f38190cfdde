"""How long a single line takes: from `send` to its row, and from `send` to a published file.

    python benchmarks/bench_latency.py [--lines 40] [--rounds 2] [--conf key=value ...]

Lines come one at a time, at random moments, to queries that wait for them. To the row:
`network_lines` beside Spark's `socket`, until `foreachBatch` has the line in this process; and the
least that a source in Python can be, one that has a task and nothing else: no log, no replay. To
the file: `network_lines` with the sink `cpu_log` beside `socket` with `csv`, until whoever looks
into the sink's folder finds the line. For `csv` that is a new name in `_spark_metadata`.

Those of a group take turns in one session, `--lines` lines each time; a first turn does not count.
"""

from __future__ import annotations

import itertools
import random
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path

from measure import Result, Series, Watch, finish, in_turns, parse, series_of
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

from spark_connector_tests.query_process import wait_until
from tutorial_pkg import network_status, start_spark
from tutorial_pkg.core.places import work_dir

HOST, PORT = "127.0.0.1", 21010
LINES, ROUNDS = 40, 2
GAP = (0.05, 0.1)  # seconds from a line's arrival to the next one: the query waits again by then
LOOK_SECONDS = 0.002
MOST_SECONDS = 60

TO_ROW, TO_FILE = "one line, send to row", "one line, send to published"
LEAST = "a source in Python that has a task and no log"
RECEIVED_AT_ONCE = 2**16  # bytes
Arrivals = Callable[[], object]  # something that changes when a line has arrived
Contestant = Callable[[int], list[float]]  # sends so many lines and returns the seconds of each
Waiting = tuple[DataFrame, Callable[[], socket.socket]]  # lines, and how to connect to their query
Source = Callable[[SparkSession, Path, int], AbstractContextManager[Waiting]]
Sink = Callable[[DataFrame, Path], tuple[DataStreamWriter, Arrivals]]

# ---- Sources: a stream of lines, and how to connect a sender to the query that reads it ---------


@contextmanager
def network_lines(spark: SparkSession, folder: Path, port: int) -> Iterator[Waiting]:
    log = folder / "log"
    source = spark.readStream.format("network_lines").option("port", port)

    def connect() -> socket.socket:
        wait_until(lambda: network_status(log).listening, MOST_SECONDS, "listening")
        return socket.create_connection((HOST, port))

    yield source.load(str(log)), connect


@contextmanager
def spark_socket(spark: SparkSession, folder: Path, port: int) -> Iterator[Waiting]:
    """The built-in source connects to its sender, so here the sender listens."""
    with socket.create_server((HOST, port)) as server:
        source = spark.readStream.format("socket").options(host=HOST, port=port)
        yield source.load(), lambda: server.accept()[0]


class LeastReader(DataSourceStreamReader):
    """Reads lines from a sender, in the process that plans; each batch's lines go to a task."""

    def __init__(self, port: int) -> None:
        self.sender = socket.create_connection((HOST, port))
        self.sender.setblocking(False)
        self.lines: list[bytes] = []

    def initialOffset(self) -> dict:
        return {"lines": 0}

    def latestOffset(self) -> dict:
        with suppress(BlockingIOError):
            self.lines += self.sender.recv(RECEIVED_AT_ONCE).splitlines()
        return {"lines": len(self.lines)}

    def partitions(self, start: dict, end: dict) -> list[InputPartition]:
        return [InputPartition(self.lines[start["lines"] : end["lines"]])]

    def read(self, partition: InputPartition) -> Iterator[tuple[str]]:
        return ((line.decode(),) for line in partition.value)

    def __getstate__(self) -> dict:
        return {}  # a task needs its lines only, which its partition has


class LeastSource(DataSource):
    def schema(self) -> str:
        return "value STRING"

    def streamReader(self, schema: object) -> LeastReader:
        return LeastReader(int(self.options["port"]))


@contextmanager
def least_source(spark: SparkSession, folder: Path, port: int) -> Iterator[Waiting]:
    """It connects to its sender, as `socket` does."""
    spark.dataSource.register(LeastSource)
    with socket.create_server((HOST, port)) as server:
        source = spark.readStream.format("LeastSource").option("port", port)
        yield source.load(), lambda: server.accept()[0]


# ---- Sinks: a writer, and what tells that a line has arrived ------------------------------------


def to_driver(lines: DataFrame, folder: Path) -> tuple[DataStreamWriter, Arrivals]:
    seen: list[object] = []
    return lines.writeStream.foreachBatch(lambda batch, _: seen.extend(batch.collect())), (
        lambda: len(seen)
    )


def to_cpu_log(lines: DataFrame, folder: Path) -> tuple[DataStreamWriter, Arrivals]:
    out = folder / "out"
    writer = lines.selectExpr("value AS item").writeStream.format("cpu_log")
    return writer.option("path", out), lambda: sum(f.stat().st_size for f in out.glob("data.*.csv"))


def to_csv(lines: DataFrame, folder: Path) -> tuple[DataStreamWriter, Arrivals]:
    out = folder / "out"
    writer = lines.select("value").writeStream.format("csv").option("path", out)
    return writer, lambda: {file.name for file in out.glob("_spark_metadata/[0-9]*")}


CONTESTANTS = {  # ours, what Spark has, and what bounds ours from below
    TO_ROW: {
        "network_lines": (network_lines, to_driver),
        "socket": (spark_socket, to_driver),
        LEAST: (least_source, to_driver),
    },
    TO_FILE: {
        "network_lines to cpu_log": (network_lines, to_cpu_log),
        "socket to csv": (spark_socket, to_csv),
    },
}

# ---- Measuring ---------------------------------------------------------------------------------


@contextmanager
def contestant(
    spark: SparkSession, folder: Path, port: int, source: Source, sink: Sink
) -> Iterator[Contestant]:
    """A query from `source` to `sink` that waits for lines."""
    with source(spark, folder, port) as (lines, connect):
        writer, arrivals = sink(lines, folder)
        query = writer.option("checkpointLocation", str(folder / "checkpoint")).start()
        try:
            with connect() as client:
                yield partial(latencies, client, arrivals, query)
        finally:
            query.stop()


def latencies(
    client: socket.socket, arrivals: Arrivals, query: StreamingQuery, lines: int
) -> list[float]:
    return [latency(client, arrivals, query) for _ in range(lines)]


def latency(client: socket.socket, arrivals: Arrivals, query: StreamingQuery) -> float:
    time.sleep(random.uniform(*GAP))
    before, sent = arrivals(), time.perf_counter()
    client.sendall(b"SimpleEvent(timestamp=10:09:37.000, sequence=1)\n")
    while arrivals() == before:
        if time.perf_counter() > sent + MOST_SECONDS or not query.isActive:
            raise RuntimeError(f"a line has not arrived: {query.exception() or 'no error'}")
        time.sleep(LOOK_SECONDS)
    return time.perf_counter() - sent


def measure_group(spark: SparkSession, group: str, lines: int, rounds: int) -> list[Series]:
    with ExitStack() as opened:
        runs = {}
        for number, (name, (source, sink)) in enumerate(CONTESTANTS[group].items()):
            temporary = tempfile.TemporaryDirectory(dir=work_dir("bench"))
            folder = Path(opened.enter_context(temporary))
            waiting = contestant(spark, folder, PORT + number, source, sink)
            runs[name] = partial(opened.enter_context(waiting), lines)
        found = in_turns(runs, rounds)
    seconds = {name: list(itertools.chain(*turns)) for name, turns in found.items()}
    return series_of(group, 1, seconds, base=list(seconds)[1])


def main() -> None:
    given = parse(__doc__, lines=LINES, rounds=ROUNDS)
    with Watch("latency") as watch:
        spark = start_spark("bench_latency", **given.conf)
        series = [
            one
            for group in CONTESTANTS
            for one in measure_group(spark, group, given.lines, given.rounds)
        ]
        spark.stop()
    finish(given, Result("A single line", series), watch)


if __name__ == "__main__":
    main()
