"""Queries that read network_lines, for the integration and the fault tests."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from tutorial_pkg.connectors.network_lines import network_status
from tutorial_pkg.processes.query_process import wait_until

HOST = "127.0.0.1"


def network_lines(spark: SparkSession, directory: Path, port: int, **options: Any) -> DataFrame:
    reader = spark.readStream.format("network_lines").options(port=port, **options)
    return reader.load(str(directory / "log"))


def start_query(spark: SparkSession, directory: Path, port: int, **options: Any) -> StreamingQuery:
    """A query into Parquet files, Spark's own exactly-once sink, when its ports are open."""
    before = network_status(directory / "log").process
    query = to_parquet(network_lines(spark, directory, port, **options), directory).start()
    wait_for_ports(query, directory, before)
    return query


def to_parquet(lines: DataFrame, directory: Path) -> Any:
    writer = lines.writeStream.format("parquet").option("path", str(directory / "out"))
    return writer.option("checkpointLocation", str(directory / "checkpoint"))


def wait_for_ports(query: StreamingQuery, directory: Path, before: int | None = None) -> None:
    """Wait until another process than `before` listens, or raise what ended the query."""

    def check() -> None:
        if query.exception():
            raise query.exception()

    wait_for_listener(directory, before, check, 120)


def wait_for_listener(
    directory: Path, before: int | None, check: Callable[[], None], seconds: float
) -> None:
    """Wait until another process than `before` listens; `check` raises when that will not be."""

    def listening() -> bool:
        check()
        status = network_status(directory / "log")
        return status.listening and status.process != before

    wait_until(listening, seconds, "listening")


def rows(spark: SparkSession, directory: Path) -> list[str]:
    """What the query has written so far, and committed."""
    return [row.value for row in spark.read.parquet(str(directory / "out")).collect()]


def offsets(directory: Path) -> list[dict[str, int]]:
    """The offsets in the checkpoint, batch by batch."""
    files = (directory / "checkpoint" / "offsets").iterdir()
    numbered = sorted((file for file in files if file.name.isdigit()), key=lambda f: int(f.name))
    return [json.loads(file.read_text().splitlines()[2]) for file in numbered]
