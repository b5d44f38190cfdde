"""How fast `file_lines` is beside Spark's built-in `text` source: batch and streaming, noop sink.

    python benchmarks/bench_file_lines.py [--lines 3000000] [--rounds 3] [--conf key=value ...]

Both sources read the same lines in turns in one session, after rounds that are not counted. A
streaming query runs already when a file is moved into its directory; what counts is the time
until its last row has passed. `text` never leaves the JVM; ours crosses from Python as Arrow.
"""

from __future__ import annotations

import shutil
import tempfile
from functools import partial
from pathlib import Path

from lines import LINE
from measure import Result, Series, Watch, finish, in_turns, mean_over, parse, series_of, timed
from pyspark.sql import SparkSession

from tutorial_pkg import start_spark
from tutorial_pkg.core.places import work_dir

FORMATS = ("text", "file_lines")
WARM_UP_ROUNDS = 3
RUN_SECONDS = 1.5  # a run is as many readings as take this long, and counts as their mean


class Batch:
    """Reads the file from start to end."""

    def __init__(self, spark: SparkSession, source: str, file: Path, _: Path) -> None:
        self._spark, self._source, self._file = spark, source, file

    def run(self) -> float:
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

    def run(self) -> float:
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


def measure(kind: type, spark: SparkSession, file: Path, lines: int, rounds: int) -> list[Series]:
    contestants = {source: kind(spark, source, file, file.parent) for source in FORMATS}
    runs = {source: partial(mean_over, RUN_SECONDS, contestants[source].run) for source in FORMATS}
    seconds = in_turns(runs, rounds, WARM_UP_ROUNDS)
    for contestant in contestants.values():
        contestant.close()
    return series_of(kind.__name__.lower(), lines, seconds, base="text")


def write_lines(path: Path, count: int) -> None:
    with path.open("wb") as file:
        file.writelines(LINE % number for number in range(count))


def main() -> None:
    given = parse(__doc__)
    with Watch("file_lines") as watch, tempfile.TemporaryDirectory(dir=work_dir("bench")) as folder:
        spark = start_spark("bench_file_lines", **given.conf)
        file = Path(folder, "lines.csv")
        write_lines(file, given.lines)
        series = [
            each
            for kind in (Batch, Streaming)
            for each in measure(kind, spark, file, given.lines, given.rounds)
        ]
        spark.stop()
    finish(given, Result("`file_lines` beside Spark's `text`", series), watch)


if __name__ == "__main__":
    main()
