"""A query with state, made to be killed: the trades and shares of each ticker.

As a script it is a driver. Arguments: folder, trades of each exchange.
"""

from __future__ import annotations

import json
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource
from pyspark.sql.streaming import StreamingQuery

from spark_connector_tests.query_process import end_with_parent
from tutorial_pkg import SourceBuilder, start_spark
from tutorial_pkg.builder import integer
from tutorial_pkg.state import Accumulator, rolling, use_rocksdb
from workbook.trading import SCHEMA, trade

PAUSE, AT_ONCE = 0.02, 80
A_BATCH = 5000  # rows at most: there are many batches, on a slow machine, too


class Exchange:
    """An exchange with 4,000 trades per second, `until` trades in all."""

    def __init__(self, context: Any) -> None:
        self.exchange, self.until, self.next = context.index, context.options.until, 0

    def fill(self, buffer: Any) -> None:
        time.sleep(PAUSE)
        for number in range(self.next, min(self.next + AT_ONCE, self.until)):
            buffer.add(trade(self.exchange, number))
            self.next = number + 1

    def snapshot(self) -> int:
        return self.next

    def restore(self, snapshots: list[int]) -> None:
        self.next = snapshots[self.exchange]


def exchanges() -> type[DataSource]:
    """Return a source of two exchanges that resume after a restart."""
    builder = SourceBuilder.stream("exchanges", SCHEMA, create=Exchange).fill(Exchange.fill)
    builder = builder.snapshot(Exchange.snapshot).restore(Exchange.restore).timestamps("time")
    builder = builder.option("until", integer(0), 1000, "trades of each exchange")
    return builder.distributed(2).build()


class Totals:
    """The trades of a ticker, and the shares that changed hands in them."""

    accumulator = result = "trades LONG, shares LONG"

    def create(self) -> Accumulator:
        return 0, 0

    def accumulate(self, accumulator: Accumulator, row: Any) -> Accumulator:
        return accumulator[0] + 1, accumulator[1] + row.quantity

    def combine(self, left: Accumulator, right: Accumulator) -> Accumulator:
        return left[0] + right[0], left[1] + right[1]

    def deduct(self, left: Accumulator, right: Accumulator) -> Accumulator:
        return left[0] - right[0], left[1] - right[1]

    def finish(self, accumulator: Accumulator) -> Accumulator:
        return accumulator


def write_batch(folder: Path, rows: DataFrame, number: int) -> None:
    """Write a file for each batch, named after its number, so that a repeat replaces it."""
    folder.mkdir(exist_ok=True)
    draft = folder / f"{number:06}.draft"
    draft.write_text(json.dumps([row.asDict() for row in rows.collect()], default=str))
    draft.rename(folder / f"{number:06}.json")


def start_totals(spark: SparkSession, folder: Path, until: int) -> StreamingQuery:
    """Start the query; the source's log, the checkpoint and the output are in `folder`."""
    use_rocksdb(spark)
    spark.dataSource.register(exchanges())
    reader = spark.readStream.format("exchanges").option("maxRowsPerTrigger", A_BATCH)
    trades = reader.option("until", until).load(f"{folder}/log")
    writer = rolling(trades, "ticker", Totals()).writeStream.outputMode("update")
    writer = writer.option("checkpointLocation", f"{folder}/checkpoint")
    return writer.foreachBatch(partial(write_batch, folder / "out")).start()


def totals(folder: Path) -> dict[str, tuple[int, int]]:
    """Return the last trades and shares of each ticker in `folder`."""
    found: dict[str, tuple[int, int]] = {}
    for file in sorted((folder / "out").glob("*.json")):
        for row in json.loads(file.read_text()):
            found[row["ticker"]] = row["trades"], row["shares"]
    return found


def trades_in(folder: Path) -> int:
    """Return the number of trades in the totals of `folder`."""
    return sum(trades for trades, _ in totals(folder).values())


if __name__ == "__main__":
    end_with_parent()
    without_ui: dict[str, Any] = {"spark.ui.enabled": "false"}
    session = start_spark("totals", **without_ui)
    start_totals(session, Path(sys.argv[1]), int(sys.argv[2])).awaitTermination()
