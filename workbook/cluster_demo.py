"""`make cluster-demo`: a query on a cluster that loses a worker, and the account of every line.

Lines come over the network and go into `cpu_log`. In mid-stream a worker dies with its executors,
as a machine would.
"""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from spark_connector_tests.query_process import wait_until
from tutorial_pkg import network_status, send_lines, start_spark, stop_spark
from tutorial_pkg.core.places import work_dir
from workbook.cluster import HOST, Cluster
from workbook.senders import free_ports

PARTS = 6  # the worker dies after half of them
SECONDS = 120


def run_cluster_demo(lines: int = 60_000, folder: Path | None = None) -> bool:
    """Send this many lines, kill a worker half-way, and print the account.

    Returns whether each line was published exactly once.
    """
    folder = folder or work_dir("cluster")
    shutil.rmtree(folder, ignore_errors=True)
    sent = [f"line {number}" for number in range(lines)]
    with Cluster(folder / "daemons") as cluster:
        spark = start_spark("cluster demo", **cluster.settings)
        try:
            port = free_ports()
            rows = spark.readStream.format("network_lines").option("port", port)
            marked = rows.load(str(folder / "log")).repartition(2).mapInArrow(_mark, "item STRING")
            writer = marked.writeStream.format("cpu_log")
            writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
            query = writer.start(str(folder / "cpu_log"))
            wait_until(lambda: network_status(folder / "log").listening, SECONDS, "a listener")
            confirmed = 0
            for part in range(PARTS):
                if part == PARTS // 2:
                    query.processAllAvailable()  # so that both workers have written something
                    print(f"worker-{cluster.kill_worker()} is killed half-way", flush=True)
                confirmed += send_lines(HOST, port, sent[part::PARTS])
            query.processAllAvailable()
            query.stop()
            log = spark.read.format("cpu_log").load(str(folder / "cpu_log")).collect()
        finally:
            stop_spark(spark)
    published = [row.item.split(" ", 1) for row in log]
    workers = Counter(name for name, _ in published)
    by_worker = ", ".join(f"{name} {count:,}" for name, count in sorted(workers.items()))
    exact = Counter(line for _, line in published) == Counter(sent)
    print(f"sent {lines:,} · confirmed {confirmed:,} · published {len(published):,} ({by_worker})")
    print(f"every line once: {'yes' if exact else 'NO'}")
    return exact


def _mark(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Put the worker's name before each line: an executor runs in its worker's folder."""
    match = re.search(r"worker-\d+", str(Path.cwd()))
    name = match.group() if match else "elsewhere"
    for batch in batches:
        marked = pc.binary_join_element_wise(name, batch.column("value").cast(pa.string()), " ")
        yield pa.record_batch([marked], names=["item"])
