"""How fast `file_lines` is beside Spark's built-in `text` source: batch and streaming, noop sink.

    python benchmarks/bench_file_lines.py [--lines 3000000] [--rounds 7] [--conf key=value ...]

Both sources read the same lines in turns in one session, after rounds that are not counted. A
streaming query runs already when a file is moved into its directory; what counts is the time
until its last row has passed. `text` never leaves the JVM; ours crosses from Python as Arrow.
The CPU time of the JVM and the Python workers is what remains comparable on a busy machine.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psutil
from pyspark.sql import SparkSession

from tutorial_pkg import start_spark

FORMATS = ("text", "file_lines")
WARM_UP_ROUNDS = 5


def write_lines(path: Path, count: int) -> None:
    """About 75 bytes a line, as the CPU log has them."""
    with path.open("w") as file:
        for i in range(count):
            file.write(
                f"{1583309377078 + i},0.{i % 1000000:06d},"
                f"SimpleEvent(timestamp=10:09:37.000, sequence={i})\n"
            )


def cpu_seconds() -> float:
    """What the JVM and its workers, living or gone, have used so far."""
    family = psutil.Process().children(recursive=True)
    return sum(sum(process.cpu_times()[:4]) for process in family if process.is_running())


def timed(action: Callable[[], None]) -> tuple[float, float]:
    """Wall and CPU seconds."""
    started, used = time.perf_counter(), cpu_seconds()
    action()
    return time.perf_counter() - started, cpu_seconds() - used


class Batch:
    """Reads the file from start to end."""

    def __init__(self, spark: SparkSession, source: str, file: Path, _: Path) -> None:
        self._spark, self._source, self._file = spark, source, file

    def run(self) -> tuple[float, float]:
        lines = self._spark.read.format(self._source).load(str(self._file))
        return timed(lambda: lines.write.format("noop").mode("overwrite").save())

    def close(self) -> None:
        pass


class Streaming:
    """A query that tails a directory; a round is one more file in it."""

    def __init__(self, spark: SparkSession, source: str, file: Path, work: Path) -> None:
        self._file, self._watched, self._staged = file, work / source, work / f"{source}.staged"
        self._watched.mkdir()
        lines = spark.readStream.format(source).load(str(self._watched))
        self._query = (
            lines.writeStream.format("noop")
            .option("checkpointLocation", str(work / f"{source}.checkpoint"))
            .start()
        )
        self._round = 0

    def run(self) -> tuple[float, float]:
        shutil.copy(self._file, self._staged)
        for old in self._watched.iterdir():
            old.unlink()
        self._round += 1
        return timed(self._move_in_and_wait)

    def _move_in_and_wait(self) -> None:
        self._staged.rename(self._watched / f"{self._round}.csv")
        self._query.processAllAvailable()

    def close(self) -> None:
        self._query.stop()


def measure(kind: type, spark: SparkSession, file: Path, work: Path, rounds: int) -> dict:
    """Wall and CPU seconds of each counted round by format."""
    contestants = {source: kind(spark, source, file, work) for source in FORMATS}
    seconds: dict[str, list[tuple[float, float]]] = {source: [] for source in FORMATS}
    for round_ in range(WARM_UP_ROUNDS + rounds):
        for source, contestant in contestants.items():
            elapsed = contestant.run()
            if round_ >= WARM_UP_ROUNDS:
                seconds[source].append(elapsed)
    for contestant in contestants.values():
        contestant.close()
    return seconds


def report(kind: str, seconds: dict[str, list[tuple[float, float]]], lines: int) -> None:
    medians = {
        source: [statistics.median(column) for column in zip(*runs, strict=True)]
        for source, runs in seconds.items()
    }
    of_text = medians["text"]
    for source, (wall, cpu) in medians.items():
        print(
            f"{kind:<10} {source:<11} {wall:7.3f} s {lines / wall / 1e6:6.2f} million lines/s "
            f"({of_text[0] / wall:4.2f} of text)  CPU {cpu:6.2f} s ({of_text[1] / cpu:4.2f})"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lines", type=int, default=3_000_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--conf", nargs="*", default=[], metavar="KEY=VALUE")
    given = parser.parse_args()
    spark = start_spark("bench_file_lines", **dict(pair.split("=", 1) for pair in given.conf))
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        file = work / "lines.csv"
        write_lines(file, given.lines)
        for kind in (Batch, Streaming):
            seconds = measure(kind, spark, file, work, given.rounds)
            report(kind.__name__.lower(), seconds, given.lines)
    spark.stop()


if __name__ == "__main__":
    main()
