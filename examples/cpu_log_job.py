"""Count lines from the network in windows of their own time; log each count with the CPU load."""

import argparse

from pyspark.sql import functions as F

from tutorial_pkg import QueryMetrics, run_until_signal, start_spark

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("folder", help="an absolute path that driver and workers share")
parser.add_argument("--host", default="127.0.0.1", help="0.0.0.0: lines from other machines")
parser.add_argument("--port", type=int, default=11000)
parser.add_argument("--window", default="10 seconds")
parser.add_argument("--metrics-port", type=int, default=0)
given = parser.parse_args()

spark = start_spark("cpu_log job")
metrics = QueryMetrics()
spark.streams.addListener(metrics)
print(f"Metrics: {metrics.serve(given.metrics_port).url}", flush=True)

lines = spark.readStream.format("network_lines").options(host=given.host, port=given.port)
lines = lines.option("eventTime", "millis_prefix").load(f"{given.folder}/log")
window = F.window("event_time", given.window)
counts = lines.withWatermark("event_time", given.window).groupBy(window).count()
writer = counts.selectExpr("concat(window.start, ' ', count, ' lines')").writeStream
writer = writer.format("cpu_log").queryName("cpu_log_job").trigger(processingTime="1 second")
query = writer.option("checkpointLocation", f"{given.folder}/checkpoint").start(
    f"{given.folder}/cpu_log"
)
stopped = run_until_signal(query)
rows = metrics.query("cpu_log_job").rows_in_total
print(f"{'Stopped' if stopped else 'Ended'} after {rows:,} lines")
spark.stop()
