"""A query made to be killed: lines from the network go into the CPU log, exactly once.

As a script it is a driver. Arguments: folder, first port, number of ports.
"""

from __future__ import annotations

import sys
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from spark_connector_tests.query_process import end_with_parent
from tutorial_pkg import start_spark


def network_to_log(spark: SparkSession, folder: str, port: int, ports: int) -> StreamingQuery:
    """Start the query. All of its files are in `folder`."""
    source = spark.readStream.format("network_lines").options(port=port, parallelism=ports)
    writer = source.load(f"{folder}/network").writeStream.format("cpu_log")
    return writer.option("checkpointLocation", f"{folder}/checkpoint").start(f"{folder}/out")


if __name__ == "__main__":
    end_with_parent()
    # Tasks are retried, as on a cluster.
    settings: dict[str, Any] = {"spark.ui.enabled": "false", "spark.master": "local[2,4]"}
    spark = start_spark("drill", **settings)
    network_to_log(spark, sys.argv[1], int(sys.argv[2]), int(sys.argv[3])).awaitTermination()
