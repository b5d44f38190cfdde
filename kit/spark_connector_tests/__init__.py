"""Does a streaming source or sink keep its promises? Find out for anybody's, from outside.

Describe in one object what to examine: how to give a source rows with the numbers 0, 1, 2 …, or how
to see what is in a sink. Then

    from pyspark.sql import SparkSession
    from spark_connector_tests import StreamSource, examine_source

    def my_source(folder):
        def feed(numbers):
            draft = folder / f".{numbers[0]}"
            draft.write_text("".join(f"{number}\\n" for number in numbers))
            draft.rename(folder / f"{numbers[0]}.txt")  # a file appears whole

        return StreamSource("text", {"path": folder}, feed=feed)

    print(examine_source(my_source, SparkSession.builder.getOrCreate()))

tries each promise on a real query, some of them in drivers that are killed, and prints what it
found, with broken promises first: ✗ broken, with what was seen, what to do, and what else ended
with the same error, or hung; ! advice that is not followed; ✓ kept; – not claimed, with the reason.
One mistake may break several promises, each in its own way, and then each is reported: fix one,
usually the first, and examine again. In a notebook the report is a table. A sink, here Spark's own
parquet:

    from pyspark.sql import SparkSession
    from spark_connector_tests import StreamSink, examine_sink

    spark = SparkSession.builder.getOrCreate()

    def parquet(folder):
        out = folder / "out"

        def read():
            if not (out / "_spark_metadata").exists():
                return []  # before the first batch
            return [row.value for row in spark.read.parquet(str(out)).collect()]

        return StreamSink("parquet", read, {"path": out})

    print(examine_sink(parquet, spark))

`help(StreamSource)` and `help(StreamSink)` say what else you can describe, and the more you
describe, the more is tried: options for a limit or another parallelism, the values of a row,
columns of other types, splits, a `Server` that can be stopped and started. You can also say what is
not claimed. `examine_source(…, only=["restart"])` tries one promise; `for promise in
SOURCE_PROMISES: print(promise.name, promise.how)` shows all of them.

From a shell: `python -m spark_connector_tests my_module:my_source`; it prints each verdict as soon
as it is known, and takes a minute or two. Under pytest, with a fixture `spark` that gives a
session, each promise is a test:

    from spark_connector_tests.classes import StreamSourceTests  # and StreamSinkTests

    class TestMySource(StreamSourceTests):
        def describe(self, folder):
            return my_source(folder)

Most of it works from outside: with Spark's own formats and other people's, in Python or on the JVM.
Some promises need a look inside, and are tried only on classes in Python: which rows a reader hands
on, and what becomes of an error or a crash at any line of `read` or `commit`. The kit runs on one
machine, because it kills drivers and looks at processes, and in a session in which no other query
runs. What it does not examine: in which order the rows of a split come (only that the order is the
same when a batch is read again), rows that are equal (each row of a trial has another number), and
what becomes of an offset beyond what the source has, as after a server was restored. What it cannot
know: what a power failure takes that `kill -9` does not, what a second attempt of a task does
beside the first one (a local Spark has no speculation), what a driver that was given up for dead
still does next to the new one, what happens under loads that it does not make (more than 20,000
rows at once, or 4,300 in a task that writes, or twelve such tasks), and whether a promise that held
in these trials holds in the next one.
"""

from spark_connector_tests.described import LIMIT, Server, StreamSink, StreamSource
from spark_connector_tests.examination import examine_sink, examine_source
from spark_connector_tests.promise import Broken, Mistake, Promise
from spark_connector_tests.report import Report, Verdict
from spark_connector_tests.sink_promises import SINK_PROMISES
from spark_connector_tests.source_promises import SOURCE_PROMISES

__all__ = [
    "LIMIT",
    "SINK_PROMISES",
    "SOURCE_PROMISES",
    "Broken",
    "Mistake",
    "Promise",
    "Report",
    "Server",
    "StreamSink",
    "StreamSource",
    "Verdict",
    "examine_sink",
    "examine_source",
]

__version__ = "0.2.0"
