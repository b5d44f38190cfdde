"""Windows and a join made to be killed: both queries write a file for each batch.

Arguments: two files for `SpareDriver`, the folder, and how many orders there are.
"""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.datasource import DataSource

from spark_connector_tests.query_process import end_with_parent
from tests.faults.spare_driver import started
from tutorial_pkg import SourceBuilder
from tutorial_pkg.builder import integer
from workbook.shop import ORDERS, PAYMENTS, orders, payments
from workbook.trade_totals import write_batch


class Told:
    """Rows of a list, ten at a time, and never again those that were told before."""

    rows: Any

    def __init__(self, context: Any) -> None:
        self.all, self.next = type(self).rows(context.options.count), 0

    def fill(self, buffer: Any) -> None:
        time.sleep(0.02)
        for row in self.all[self.next : self.next + 10]:
            buffer.add(tuple(row))
        self.next = min(self.next + 10, len(self.all))

    def snapshot(self) -> int:
        return self.next

    def restore(self, snapshots: list[int]) -> None:
        self.next = snapshots[0]


class ToldOrders(Told):
    rows = staticmethod(orders)


class ToldPayments(Told):
    rows = staticmethod(lambda count: sorted(payments(count)))


def source(name: str, schema: str, told: type[Told]) -> type[DataSource]:
    builder = SourceBuilder.stream(name, schema, create=told).fill(told.fill)
    builder = builder.snapshot(told.snapshot).restore(told.restore)
    return builder.option("count", integer(0), 0, "how many orders there are").build()


def write(folder: Path, rows: DataFrame) -> None:
    writer = rows.writeStream.option("checkpointLocation", f"{folder}/checkpoint")
    writer.foreachBatch(partial(write_batch, folder / "out")).start()


def stream(spark: SparkSession, folder: Path, name: str, time_column: str, count: int) -> DataFrame:
    # A batch of all that there is would leave nothing for the next driver, where starts are slow.
    few = spark.readStream.format(name).options(count=count, maxRowsPerTrigger=250)
    rows = few.load(str(folder))
    return rows.withWatermark(time_column, "5 seconds")


def run_queries(spark: SparkSession, folder: Path, count: int) -> None:
    spark.dataSource.register(source("orders", ORDERS, ToldOrders))
    spark.dataSource.register(source("payments", PAYMENTS, ToldPayments))
    sold = stream(spark, folder / "orders", "orders", "time", count)
    paid = stream(spark, folder / "payments", "payments", "paid", count)
    within = F.expr("id = order AND paid BETWEEN time AND time + INTERVAL 10 SECONDS")
    joined = sold.join(paid, within, "left_outer")
    write(folder / "joined", joined.select("id", F.unix_seconds("paid").alias("paid")))
    counted = stream(spark, folder / "counted", "orders", "time", count)
    windows = counted.groupBy(F.window("time", "10 seconds")).agg(F.sum("euros").alias("euros"))
    write(folder / "windows", windows.select(F.unix_seconds("window.end").alias("end"), "euros"))


if __name__ == "__main__":
    end_with_parent()
    spark, (folder, count) = started()
    run_queries(spark, Path(folder), int(count))
    spark.streams.awaitAnyTermination()
