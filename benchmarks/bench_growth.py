"""What `file_lines` costs beside very many files that are done, ten of which still grow.

    python benchmarks/bench_growth.py [--lines 100000] [--conf key=value ...]

`--lines` is the largest number of files, a line in each. Looks are timed at the reader itself, as
Spark calls it, in a new process, since each query has one of its own. An idle query runs in Spark,
and the CPU time of everything below this program counts.
"""

from __future__ import annotations

import json
import os
import statistics
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import psutil
from measure import Result, Watch, finish, parse, timed
from pyspark.sql import SparkSession

from tutorial_pkg import start_spark
from tutorial_pkg.connectors.file_lines import FileLinesDataSource
from tutorial_pkg.core.places import work_dir

SIZES = (1_000, 10_000)  # files, and as many as are asked for
GROWING = 10
LOOKS = 9
LONG_AGO = 1_600_000_000
IDLE_SECONDS = 10.0
NOTICED_SECONDS = 200.0
LOOK_EVERY_SECONDS = 0.02  # about as often as Spark asks an idle source


class Growth(NamedTuple):
    """Seconds, but for `memory` (MB that the reader takes), `note` (kB of the offset in a
    checkpoint) and `idle` (% of a core)."""

    first: float
    noticed: float
    look: float
    memory: float
    note: float
    idle: float


def measure(spark: SparkSession, folder: Path, files: int) -> Growth:
    make_files(folder, files)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        found = process.submit(looks, folder).result()
    return Growth(*found, idle=100 * idle_share(spark, folder))


def table(found: dict[int, Growth]) -> list[str]:
    """The measurements as lines of a Markdown table."""
    return [
        "| files, ten of them growing | first look, s | growth of files at rest noticed after, s "
        "| look, s | the reader's memory, MB | note in the checkpoint, kB "
        "| idle query, % of a core |",
        "|--:|--:|--:|--:|--:|--:|--:|",
        *(
            f"| {files:,} | {it.first:.2f} | {it.noticed:.1f} | {it.look:.4f} | {it.memory:.0f} "
            f"| {it.note:.1f} | {it.idle:.1f} |"
            for files, it in found.items()
        ),
    ]


def make_files(folder: Path, count: int) -> None:
    folder.mkdir()
    for number in range(count):
        file = folder / f"app.{number}.log"
        file.write_text(f"1583309377078,the only line of file {number}\n")
        os.utime(file, (LONG_AGO, LONG_AGO))


def looks(folder: Path) -> tuple[float, float, float, float, float]:
    """Seconds of the first look, until ten files at rest that grow are all noticed, and of a look
    that finds them grown once more; MB that the reader takes then, and kB of the offset."""
    process = psutil.Process()
    before = process.memory_info().rss
    reader = FileLinesDataSource({"path": str(folder)}).streamReader(schema=None)
    limit = reader.getDefaultReadLimit()
    offsets: list[dict[str, Any]] = [reader.initialOffset()]
    live = [folder / f"app.{number}.log" for number in range(GROWING)]

    def look() -> None:
        offsets.append(reader.latestOffset(offsets[-1], limit))

    def look_until_all_are_known() -> None:
        end = time.monotonic() + NOTICED_SECONDS
        while not {str(file) for file in live} <= paths_in(offsets[-1]):
            if time.monotonic() > end:
                raise RuntimeError(f"not all of {GROWING} files that grew were noticed")
            look()
            time.sleep(LOOK_EVERY_SECONDS)

    first = timed(look)
    for _ in range(2):  # what the first look found is taken over
        look()
    grow(live)
    noticed = timed(look_until_all_are_known)
    seconds = []
    for _ in range(LOOKS):
        grow(live)
        seconds.append(timed(look))
        if offsets[-1] == offsets[-2]:
            raise RuntimeError("a look did not find what had grown")
    memory = (process.memory_info().rss - before) / 1e6
    return first, noticed, statistics.median(seconds), memory, len(json.dumps(offsets[-1])) / 1000


def paths_in(offset: dict[str, Any]) -> set[str]:
    return {file["path"] for file in offset["files"].values() if file}


def grow(files: list[Path]) -> None:
    for file in files:
        with file.open("a") as log:
            log.write("1583309377078,one more\n")


def idle_share(spark: SparkSession, folder: Path) -> float:
    """The part of a core that an idle query takes, in Spark and in Python together."""
    lines = spark.readStream.format("file_lines").load(str(folder))
    checkpoint = folder.with_name(f"{folder.name}.checkpoint")
    query = lines.writeStream.format("noop").option("checkpointLocation", str(checkpoint)).start()
    query.processAllAvailable()
    time.sleep(2.0)
    before = cpu_seconds()
    time.sleep(IDLE_SECONDS)
    spent = {process: used - before.get(process, 0) for process, used in cpu_seconds().items()}
    query.stop()
    return sum(spent.values()) / IDLE_SECONDS


def cpu_seconds() -> dict[psutil.Process, float]:
    """By process: one that ends meanwhile must not take away what it had used before."""
    times = {each: each.cpu_times() for each in psutil.Process().children(recursive=True)}
    return {each: used.user + used.system for each, used in times.items()}


def main() -> None:
    given = parse(__doc__, lines=100_000)
    sizes = sorted({size for size in SIZES if size < given.lines} | {given.lines})
    with Watch("growth") as watch, tempfile.TemporaryDirectory(dir=work_dir("bench")) as folder:
        spark = start_spark("bench_growth", **given.conf)
        found = {size: measure(spark, Path(folder, f"of.{size}"), size) for size in sizes}
        spark.stop()
    most = found[sizes[-1]]
    figures = {"files": float(sizes[-1]), **most._asdict()}
    title = "`file_lines` beside files that are done"
    finish(given, Result(title, [], notes=table(found), figures=figures), watch)


if __name__ == "__main__":
    main()
