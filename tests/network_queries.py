"""Queries that read network_lines, for the integration and the fault tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from spark_connector_tests.query_process import wait_until
from tutorial_pkg.connectors.network_lines import network_status

HOST = "127.0.0.1"


def network_lines(spark: SparkSession, directory: Path, port: int, **options: Any) -> DataFrame:
    reader = spark.readStream.format("network_lines").options(port=port, **options)
    return reader.load(str(directory / "log"))


def start_query(spark: SparkSession, directory: Path, port: int, **options: Any) -> StreamingQuery:
    """Start a query into Parquet files, and wait until its ports are open."""
    before = network_status(directory / "log").process
    query = to_parquet(network_lines(spark, directory, port, **options), directory).start()

    def listening() -> bool:
        if query.exception():
            raise query.exception()
        status = network_status(directory / "log")
        return status.listening and status.process != before

    wait_until(listening, 120, "listening")
    return query


def to_parquet(lines: DataFrame, directory: Path) -> Any:
    writer = lines.writeStream.format("parquet").option("path", str(directory / "out"))
    return writer.option("checkpointLocation", str(directory / "checkpoint"))


def rows(spark: SparkSession, directory: Path) -> list[str]:
    """Return the rows that the query has committed."""
    return [row.value for row in spark.read.parquet(str(directory / "out")).collect()]
