"""Two queries on a cluster that loses a worker, and the account: `make cluster-demo`.

Lines over the network go into `cpu_log`; the same lines, to another port, are counted in windows
of their event time. In mid-stream a worker dies with its executors, as a machine would. Then it is
counted what was sent, what the sender was told is safe, and what was published.
"""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from spark_connector_tests.query_process import wait_until
from tutorial_pkg import network_status, send_lines, start_spark
from tutorial_pkg.core.errors import last_error
from tutorial_pkg.core.places import work_dir
from tutorial_pkg.session.start import stop_spark
from workbook.cluster import HOST, Cluster
from workbook.senders import free_ports

PARTS = 6  # the worker dies after half of them
WINDOW_MILLIS = 1_000
SECONDS = 120


@dataclass(frozen=True)
class Account:
    """Numbers of lines: sent, confirmed to the sender, published by `cpu_log` (also by the worker
    that wrote them), and counted in windows. `exact` says that every line was published once and
    every window counts what it should. `killed` is the number of the worker that died.
    """

    sent: int
    confirmed: int
    published: int
    by_worker: dict[str, int]
    in_windows: int
    killed: int
    exact: bool

    def __str__(self) -> str:
        workers = ", ".join(f"{name} {lines:,}" for name, lines in sorted(self.by_worker.items()))
        return (
            f"worker-{self.killed} was killed half-way\n"
            f"sent {self.sent:,} · confirmed {self.confirmed:,} · published {self.published:,} "
            f"({workers}) · in windows {self.in_windows:,}\n"
            f"every line once: {'yes' if self.exact else 'NO'}"
        )


def run_cluster_demo(lines: int = 60_000, folder: Path | None = None) -> Account:
    """Send this many lines to both queries, kill a worker half-way, and count."""
    folder = folder or work_dir("cluster")
    shutil.rmtree(folder, ignore_errors=True)
    with Cluster(folder / "daemons") as cluster:
        spark = start_spark("cluster demo", **cluster.settings)
        try:
            return _demonstrate(spark, cluster, folder, lines)
        finally:
            stop_spark(spark)


def _demonstrate(spark: SparkSession, cluster: Cluster, folder: Path, lines: int) -> Account:
    ports = {"log": (first := free_ports(2)), "windows": first + 1}
    queries = [_to_log(spark, folder, ports["log"]), _to_windows(spark, folder, ports["windows"])]
    for name in ports:
        wait_until(partial(_listens, folder / name), SECONDS, "listening")
    sent = [f"{number},item {number}" for number in range(lines)]
    confirmed = killed = 0
    for part in range(PARTS):
        if part == PARTS // 2:
            queries[0].processAllAvailable()  # so that both workers have written something
            killed = cluster.kill_worker()
        confirmed += send_lines(HOST, ports["log"], sent[part::PARTS])
        send_lines(HOST, ports["windows"], sent[part::PARTS])
    for query in queries:
        _finish(query)
    return _account(spark, folder, sent, confirmed, killed)


def _listens(log: Path) -> bool:
    return network_status(log).listening


def _to_log(spark: SparkSession, folder: Path, port: int) -> StreamingQuery:
    lines = spark.readStream.format("network_lines").option("port", port)
    marked = lines.load(str(folder / "log")).repartition(2).mapInArrow(_mark, "item STRING")
    writer = marked.writeStream.format("cpu_log")
    writer = writer.option("checkpointLocation", str(folder / "log_checkpoint"))
    return writer.start(str(folder / "cpu_log"))


def _mark(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Put the worker's name before each line: an executor runs in its worker's folder."""
    found = re.search(r"worker-\d+", str(Path.cwd()))
    name = found.group() if found else "elsewhere"
    for batch in batches:
        marked = pc.binary_join_element_wise(name, batch.column("value").cast(pa.string()), " ")
        yield pa.record_batch([marked], names=["item"])


def _to_windows(spark: SparkSession, folder: Path, port: int) -> StreamingQuery:
    lines = spark.readStream.format("network_lines").option("port", port)
    lines = lines.option("eventTime", "millis_prefix")
    window = F.window("event_time", f"{WINDOW_MILLIS} milliseconds")
    counts = lines.load(str(folder / "windows")).groupBy(window.alias("window")).count()
    writer = counts.writeStream.format("memory").queryName("windows").outputMode("complete")
    return writer.option("checkpointLocation", str(folder / "windows_checkpoint")).start()


def _finish(query: StreamingQuery) -> None:
    query.processAllAvailable()
    query.stop()
    if query.exception():
        raise RuntimeError(last_error(query))


def _account(
    spark: SparkSession, folder: Path, sent: list[str], confirmed: int, killed: int
) -> Account:
    log = spark.read.format("cpu_log").load(str(folder / "cpu_log"))
    marked = [row.item.split(" ", 1) for row in log.collect()]
    windows = [row["count"] for row in spark.table("windows").collect()]
    return Account(
        sent=len(sent),
        confirmed=confirmed,
        published=len(marked),
        by_worker=dict(Counter(name for name, _ in marked)),
        in_windows=sum(windows),
        killed=killed,
        exact=Counter(line for _, line in marked) == Counter(sent)
        and Counter(windows) == Counter(_expected_windows(len(sent))),
    )


def _expected_windows(lines: int) -> list[int]:
    """Line n happened n milliseconds after 1970 began."""
    whole, rest = divmod(lines, WINDOW_MILLIS)
    return [WINDOW_MILLIS] * whole + ([rest] if rest else [])
