"""The CPU load in windows of ten seconds: a job to run again and again, by cron for instance.

Arguments: the folder of the CPU log, and a folder for the results. Each run reads what has come
since the last one. It ends with code 0, or with the error in one line.
"""

import sys

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

from tutorial_pkg import last_error, start_spark


def load_by_window(spark: SparkSession, log: str, results: str) -> StreamingQuery:
    """Start the query; windows that nothing can change any more go to `results`/windows."""
    lines = spark.readStream.format("cpu_log").option("maxRowsPerTrigger", 100_000).load(log)
    on_time = lines.withWatermark("timestamp", "20 seconds")  # later than that is not counted
    windows = on_time.groupBy(F.window("timestamp", "10 seconds"))
    load = windows.agg(F.avg("cpu_usage").alias("load"), F.count("*").alias("lines"))
    rows = load.select("window.start", "window.end", "load", "lines")
    writer = rows.writeStream.format("json").outputMode("append")  # each window once, when final
    writer = writer.option("checkpointLocation", f"{results}/checkpoint")  # never delete it
    return writer.trigger(availableNow=True).start(f"{results}/windows")


if __name__ == "__main__":
    query = load_by_window(start_spark("load by window"), *sys.argv[1:])
    try:
        query.awaitTermination()
    except StreamingQueryException as error:
        sys.exit(last_error(error))
