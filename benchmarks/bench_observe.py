"""What a look inside costs, and what a second worker changes.

    python benchmarks/bench_observe.py [--lines 3000000] [--rounds 3] [--conf key=value ...]

The same lines, made in the JVM, in one micro-batch, as they are, with a `peek` on them, with a
`QueryMetrics` that listens, and with both: as fast as two cores go, and nobody keeps the lines, so
that there is little that a look could hide behind. A query that does more is slowed down less.

Then files to `cpu_log`, on Spark's standalone cluster on this machine: one worker of one core, two
such workers, and one worker of two cores.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from lines import BLOCK, BLOCK_LINES
from measure import Result, Series, Watch, finish, in_turns, parse, series_of, timed
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_connector_tests.query_process import wait_until
from tutorial_pkg import QueryMetrics, peek, start_spark
from tutorial_pkg.core.places import work_dir
from tutorial_pkg.session.start import stop_spark
from workbook.cluster import Cluster

WARM_UP_ROUNDS = 2
LOOKS = 5  # times as many rounds: they are short, and the JVM still compiles in the first ones
AT_RATE = 1_000_000  # lines a second at which the overhead is told
HEAD = "1583309377078,0.502024,SimpleEvent(timestamp=10:09:37.000, sequence="
CLUSTERS = {  # workers, and the cores of each; the first is the one to compare with
    "one worker, one core": (1, 1),
    "two workers, one core each": (2, 1),
    "one worker, two cores": (1, 2),
}
WHAT_IT_SHOWS = (
    "All clusters are on this one machine of two cores, which the driver needs, too: this shows "
    "what a second core adds, and whether it matters if it is a worker's own; not what a second "
    "machine adds."
)


def lines_of(spark: SparkSession, count: int) -> DataFrame:
    """`count` lines in each micro-batch, like those of the other benchmarks."""
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", count)
    number = F.lpad(F.col("value").cast("string"), 7, "0")
    return (
        source.option("numPartitions", 2)
        .load()
        .select(F.concat(F.lit(HEAD), number, F.lit(")")).alias("value"))
    )


def one_batch(lines: DataFrame) -> float:
    """Seconds from the trigger of a batch to Spark's note that it is done."""
    with tempfile.TemporaryDirectory(dir=work_dir("bench")) as checkpoint:
        writer = lines.writeStream.format("noop").option("checkpointLocation", checkpoint)
        query = writer.trigger(processingTime="1 hour").start()
        wait_until(lambda: query.lastProgress, 120, "the batch")
        query.stop()
    return query.lastProgress.durationMs["triggerExecution"] / 1000


def looks(spark: SparkSession, count: int) -> dict[str, Callable[[], float]]:
    lines = lines_of(spark, count)
    peeked = peek(lines, "bench", to=lambda _: None)
    return {
        "as it is": lambda: one_batch(lines),
        "peek": lambda: one_batch(peeked),
        "QueryMetrics": lambda: listened_to(spark, lines),
        "both": lambda: listened_to(spark, peeked),
    }


def listened_to(spark: SparkSession, lines: DataFrame) -> float:
    metrics = QueryMetrics()
    spark.streams.addListener(metrics)
    try:
        return one_batch(lines)
    finally:
        spark.streams.removeListener(metrics)


def told(series: list[Series]) -> str:
    base, *others = series
    more = {s.name: (s.median - base.median) / s.lines for s in others}
    costs = ", ".join(f"{name} {cost * 1e9:.0f} ns" for name, cost in more.items())
    shares = ", ".join(f"{name} {cost * AT_RATE:.1%}" for name, cost in more.items())
    return (
        f"More for each line, on two cores: {costs}. At {AT_RATE:,} lines a second that is "
        f"{shares} of the time."
    )


# ---- Workers -----------------------------------------------------------------------------------


@contextmanager
def on_cluster(folder: Path, workers: int, cores: int) -> Iterator[SparkSession]:
    with Cluster(folder, workers, cores) as cluster:
        spark = start_spark("bench_observe", **cluster.settings)
        try:
            yield spark
        finally:
            stop_spark(spark)


def logged(spark: SparkSession, file: Path) -> float:
    with tempfile.TemporaryDirectory(dir=work_dir("bench")) as folder:
        lines = spark.read.format("file_lines").load(str(file)).repartition(2)
        return timed(lambda: lines.write.format("cpu_log").mode("append").save(f"{folder}/log"))


def by_workers(count: int, rounds: int) -> dict[str, list[float]]:
    """One cluster after the other: two at a time would share the cores of the machine."""
    seconds: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(dir=work_dir("bench")) as folder:
        file = Path(folder, "lines.txt")
        file.write_bytes(BLOCK * (count // BLOCK_LINES))
        for name, (workers, cores) in CLUSTERS.items():
            with on_cluster(Path(folder, f"cluster-{workers}-{cores}"), workers, cores) as spark:
                run = {name: lambda spark=spark: logged(spark, file)}
                seconds |= in_turns(run, rounds, WARM_UP_ROUNDS)
    return seconds


def main() -> None:
    given = parse(__doc__)
    with Watch("observe") as watch:
        spark = start_spark("bench_observe", **given.conf)
        seconds = in_turns(looks(spark, given.lines), LOOKS * given.rounds, LOOKS * WARM_UP_ROUNDS)
        stop_spark(spark)
        workers = by_workers(given.lines, given.rounds)
    series = series_of("a look inside", given.lines, seconds, "as it is")
    scaling = series_of(
        "files to `cpu_log` on a cluster", given.lines, workers, next(iter(CLUSTERS))
    )
    notes = [told(series), WHAT_IT_SHOWS]
    finish(
        given, Result("A look inside, and a second worker", series + scaling, notes=notes), watch
    )


if __name__ == "__main__":
    main()
