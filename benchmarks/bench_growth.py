"""What `file_lines` costs beside very many files that are done, ten of which still grow.

    python benchmarks/bench_growth.py [--lines 200000] [--conf key=value ...]

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
BEFORE_HINTS = (
    "What the kernel's hints changed is not of this run: the package of before and today's in "
    "turns, A B A B, on 2026-11-23, on a machine with some seven times as much work as cores, so "
    "in CPU seconds. The first look at 200,000 files: 8.2 and 8.6 s before, 4.3 and 4.3 now. "
    "Growth at rest, once each: beside 50,000 files noticed after 71 s before, 0.23 s now; beside "
    "200,000 after 0.27 s now."
)
LEAST = (
    "Nor is this: the reader before and after its memory was made smaller, and the least program "
    "there is, in turns beside 200,000 files on 2026-11-24, medians of five. Memory: 212 MB before "
    "and 89 now, 80 live: paths 22, sizes and times 14, ids 12, numbers 6, and the tables "
    "to find them by 25. At its peak, in the first look: 288 MB before, 240 now. CPU time of the "
    "first look: 3.8 s before and now. A loop without functions, which only does `stat`, `open`, "
    "`fstat`, `pread`, `close`, a checksum and a line of JSON for each file, takes 2.3 s, 1.2 of "
    "them in the system. So 3 s leave 3.5 µs a file for what tells renamed, replaced, linked and "
    "half-written files apart; on that day it took 7.6 µs. After a restart, two runs each: 5.2 "
    "and 5.1 s, 280 MB before; 6.1 and 6.2 s, 195 MB now, as notes are read by lines. A day later "
    "a read and some steps less for each file, in turns on a quiet machine, medians of seven: "
    "3.45 s before and 3.17 s now. Two or three threads took 4.3 to 6.8 s. On 2026-11-25, without "
    "a `stat` before a new file is opened, in turns on a machine that is slower by a quarter, "
    "medians of five: 4.00 s before and 3.42 s now, with the same memory. A day later, quiet, on "
    "such a machine: 3.6 to 4.1 s, and the least program 2.6 to 2.9 s with a `stat`, 2.2 to 2.3 "
    "without. So there 3 s are out of reach: they leave some 4 µs a file. Tried and left: "
    "`O_NOATIME` takes 4 to 5 % off, but those who clean up by access times would see no reader; "
    "without a function for each step 5 %; names below an open folder 2 %."
)


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
        "",
        BEFORE_HINTS,
        "",
        LEAST,
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
    given = parse(__doc__, lines=200_000)
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
