"""Find out which promises a streaming source or sink for Spark keeps: yours, or anybody's.

Describe the connector in one object: how to feed a source rows with the numbers 0, 1, 2 …, or how
to read back what is in a sink. Then

    from pyspark.sql import SparkSession
    from spark_connector_tests import StreamSource, examine_source

    def my_source(folder):
        def feed(numbers):
            draft = folder / f".{numbers[0]}"
            draft.write_text("".join(f"{number}\\n" for number in numbers))
            draft.rename(folder / f"{numbers[0]}.txt")  # a file appears complete

        return StreamSource("text", {"path": folder}, feed=feed)

    spark = SparkSession.builder.getOrCreate()
    print(examine_source(my_source, spark))

tries each promise on a real query, sometimes in a driver that is killed, and prints a report: ✗
broken promises with what the kit saw and what to do, ✓ kept promises, and – promises that are not
claimed or can't be tried. One mistake often breaks several promises. Fix the first one, and examine
again. In a notebook the report is a table. Here is a sink, Spark's own parquet:

    from spark_connector_tests import StreamSink, examine_sink

    def parquet(folder):
        out = folder / "out"

        def read():
            if not (out / "_spark_metadata").exists():
                return []  # before the first batch
            return [row.value for row in spark.read.parquet(str(out)).collect()]

        return StreamSink("parquet", read, {"path": out})

    print(examine_sink(parquet, spark))

The more you describe, the more is tried: see `help(StreamSource)` and `help(StreamSink)`. The
promises are in `SOURCE_PROMISES` and `SINK_PROMISES`; `only=["restart"]` tries one. From a shell,
run `python -m spark_connector_tests my_module:my_source`. Under pytest each promise is a test: see
`help(spark_connector_tests.classes)`.

The kit runs on one machine, in a session without other queries. It examines connectors in Python
and on the JVM alike; only injected errors, crashes in a commit, and other time zones need a Python
class. It doesn't examine the order of rows within a split, offsets beyond the end of the data,
power failures, speculative tasks, leaks, speed, or loads above 10,000 rows. A promise that was
kept in these trials may be broken in the next one.

The files, in reading order:

    described.py         StreamSource, StreamSink, Server: what you describe
    examination.py       examine_source, examine_sink: try promises one by one
    promise.py           what a promise is, and the exceptions that trials raise
    source_promises.py   the promises of a source
    sink_promises.py     the promises of a sink
    shared_promises.py   ways to try promises of both
    trial.py             the query under trial: run, stop, fail and kill it
    source_trial.py      feed a source, and compare the rows that arrive
    sink_trial.py        write batches to a sink, and compare what is in it
    queries.py           the queries of both trials, and the ledger that records rows
    rows.py              compare rows: missing, duplicated, changed
    faults.py            make a file or a connection fail inside a connector
    driver.py            Spark drivers made to be killed
    query_process.py     a query in its own process, and waiting for conditions
    errors.py            the line that matters in Spark's stack traces
    report.py            verdicts and the report
    command.py           the command; classes.py has the pytest classes
"""

from spark_connector_tests.described import LIMIT, Server, StreamSink, StreamSource
from spark_connector_tests.examination import examine_sink, examine_source
from spark_connector_tests.promise import Broken, Mistake, Promise
from spark_connector_tests.report import Report, Verdict
from spark_connector_tests.sink_promises import SINK_PROMISES
from spark_connector_tests.source_promises import SOURCE_PROMISES

__all__ = ["LIMIT", "SINK_PROMISES", "SOURCE_PROMISES", "Broken", "Mistake", "Promise", "Report"]
__all__ += ["Server", "StreamSink", "StreamSource", "Verdict", "examine_sink", "examine_source"]
__version__ = "0.3.0"
