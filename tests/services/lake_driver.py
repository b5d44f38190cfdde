"""A driver made to be killed: lines from a bucket to objects and to a Delta table.

Arguments: the two files of a spare driver, directory of the checkpoints, bucket, endpoint.
"""

from __future__ import annotations

import sys
import time

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from tests.faults.spare_driver import wait_for_go
from tutorial_pkg import last_error, start_spark


def run_queries(spark: SparkSession, folder: str, bucket: str, endpoint: str) -> None:
    """Each source and each sink, the upsert too; until one of them fails."""
    store = {"endpoint": endpoint}
    lines = spark.readStream.format("objects").options(**store, maxFilesPerTrigger="200")
    numbers = lines.load(f"{bucket}/in").selectExpr("CAST(value AS LONG) AS number")
    none = spark.createDataFrame([], "number LONG")
    none.write.format("delta_py").options(**store).mode("append").save(f"{bucket}/appended")
    queries = [
        start(numbers.repartition(2), "objects", folder, f"{bucket}/objects", store),
        start(numbers.repartition(2), "delta_py", folder, f"{bucket}/appended", store),
    ]
    appended = spark.readStream.format("delta_py").options(**store).load(f"{bucket}/appended")
    upsert = {**store, "mode": "upsert", "key": "number"}
    queries.append(start(appended, "delta_py", folder, f"{bucket}/upserted", upsert))
    while all(query.isActive for query in queries):
        time.sleep(0.1)
    raise SystemExit(f"a query ended: {[last_error(query) for query in queries]}")


def start(
    rows: DataFrame, name: str, folder: str, path: str, options: dict[str, str]
) -> StreamingQuery:
    writer = rows.writeStream.format(name).options(**options)
    checkpoint = f"{folder}/{path.rpartition('/')[2]}"
    return writer.option("checkpointLocation", checkpoint).start(path)


def main(ready: str, go: str, folder: str, bucket: str, endpoint: str) -> None:
    attempts = {"spark.master": "local[2,4]"}  # attempts of a task, as its worker may be killed
    spark = start_spark("drill", **{"spark.ui.enabled": "false", **attempts})
    wait_for_go(ready, go)
    run_queries(spark, folder, bucket, endpoint)


if __name__ == "__main__":
    main(*sys.argv[1:])
