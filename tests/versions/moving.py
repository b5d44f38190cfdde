"""Queries that write what they read, until they are stopped or killed.

Arguments: the folder of all, and the port of `network_lines`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

from spark_connector_tests.query_process import end_with_parent
from tutorial_pkg import SourceBuilder, start_spark
from tutorial_pkg.builder import REQUIRED, Buffer, SplitContext, not_empty

ROWS = 7  # in a batch at most: so a restart is in the middle of something


class Counter:
    """A source of the builder's that can seek."""

    def __init__(self, _: Any) -> None:
        self.next = 0

    def fill(self, buffer: Buffer) -> None:
        for _ in range(3):
            buffer.add(f"counted {self.next}")
            self.next += 1

    def restore(self, snapshots: Sequence[int]) -> None:
        self.next = snapshots[0]


COUNTER = (
    SourceBuilder.stream("counted", "value STRING", create=Counter)
    .fill(Counter.fill)
    .snapshot(lambda counter: counter.next)
    .restore(Counter.restore)
    .build()
)


def look(context: SplitContext) -> dict[str, tuple[int, int]]:
    return {"all": (0, Path(context.options.file).read_text().count("\n"))}


def rows(context: SplitContext, split: str, start: int, end: int) -> list[str]:
    return Path(context.options.file).read_text().splitlines()[start:end]


ASKED = (
    SourceBuilder.replayable("asked", "value STRING", look, rows)
    .option("file", not_empty, REQUIRED, "the file to read")
    .build()
)


def start(name: str, lines: DataFrame, folder: Path) -> None:
    writer = lines.select("value").writeStream.format("cpu_log").queryName(name)
    writer = writer.option("checkpointLocation", str(folder / f"{name}-checkpoint"))
    writer.trigger(processingTime="200 milliseconds").start(str(folder / f"{name}-out"))


def main(folder: Path, port: str) -> None:
    end_with_parent()
    spark = start_spark("moving", **{"spark.ui.enabled": "false"})
    for source in (COUNTER, ASKED):
        spark.dataSource.register(source)
    file, log, counted = (str(folder / name) for name in ("in.txt", "log", "counted-log"))

    def read(name: str, path: str | None = None, **options: str) -> DataFrame:
        source = spark.readStream.format(name).option("maxRowsPerTrigger", ROWS)
        return source.options(**options).load(path)

    start("file", read("file_lines", file), folder)
    start("port", read("network_lines", log, port=port), folder)
    start("counted", read("counted", counted), folder)
    start("asked", read("asked", file=file), folder)
    while not (folder / "stop").exists():
        assert len(spark.streams.active) == 4, "a query has ended"
        time.sleep(0.1)
    for query in spark.streams.active:
        query.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
