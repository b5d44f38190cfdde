"""A sink for tables of a SQLite database, exactly once.

python examples/sqlite_sink.py /tmp/numbers
"""

import sqlite3
import sys

from tutorial_pkg import SinkBuilder, run_until_signal, start_spark
from tutorial_pkg.builder import REQUIRED, local_directory


def connect(options):
    return sqlite3.connect(options.file, timeout=60)


sink = (
    SinkBuilder.dbapi("sqlite", connect, begin="BEGIN IMMEDIATE")
    .option("file", local_directory, REQUIRED, "the database")
    .build()
)

if __name__ == "__main__":
    [folder] = sys.argv[1:]
    file = f"{folder}/numbers.db"
    spark = start_spark("numbers")
    spark.dataSource.register(sink)
    sqlite3.connect(file).execute("CREATE TABLE IF NOT EXISTS numbers (value, timestamp)")
    rows = spark.readStream.format("rate").load().selectExpr("value", "string(timestamp)")
    writer = rows.writeStream.format("sqlite").option("file", file).option("table", "numbers")
    run_until_signal(writer.option("checkpointLocation", f"{folder}/checkpoint").start())
