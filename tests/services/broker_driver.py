"""A driver made to be killed: numbers from a topic to a stream, back, and from a queue to files.

Arguments: the two files of a spare driver, directory of all that it writes, both addresses.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from tests.faults.spare_driver import wait_for_go
from tutorial_pkg import last_error, start_spark

IN, OUT = "IN", "OUT"


def run_queries(spark: SparkSession, folder: Path, kafka: str, nats: str) -> None:
    """Each source and each sink once; until one of them fails."""
    servers = {"kafka.bootstrap.servers": kafka}
    topic = spark.readStream.format("kafka_py").options(**servers, subscribe=IN)
    topic = topic.options(startingOffsets="earliest", maxOffsetsPerTrigger=200)
    stream = spark.readStream.format("nats").options(url=nats, stream=IN, parallelism=2)
    queue = spark.readStream.format("nats").options(url=nats, stream=IN, mode="queue")
    numbers = queue.option("consumer", "spark").load(str(folder / "log"))
    to_stream = {"url": nats, "subject": f"{OUT}.numbers"}
    to_topic = {**servers, "topic": OUT}
    to_files = {"path": folder / "queue" / "out"}
    data, value = "CAST(data AS STRING) AS data", "CAST(data AS STRING) AS value"
    queries = [
        start(topic.load().selectExpr("value AS data"), "nats", folder / "to-stream", to_stream),
        start(stream.load().selectExpr(value), "kafka_py", folder / "to-topic", to_topic),
        start(numbers.selectExpr(data), "cpu_log", folder / "queue", to_files),
    ]
    while all(query.isActive for query in queries):
        time.sleep(0.1)
    raise SystemExit(f"a query ended: {[last_error(query) for query in queries]}")


def start(
    rows: DataFrame, format_name: str, folder: Path, options: Mapping[str, object]
) -> StreamingQuery:
    writer = rows.writeStream.format(format_name).trigger(processingTime="100 milliseconds")
    given = {name: str(value) for name, value in options.items()}
    return writer.options(**given, checkpointLocation=str(folder / "checkpoint")).start()


def main(ready: str, go: str, folder: str, kafka: str, nats: str) -> None:
    spark = start_spark("drill", **{"spark.ui.enabled": "false"})
    wait_for_go(ready, go)
    run_queries(spark, Path(folder), kafka, nats)


if __name__ == "__main__":
    main(*sys.argv[1:])
