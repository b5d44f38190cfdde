"""`cpu_log` with `kill -9`, failing tasks and full disks: each line once, none taken back."""

from __future__ import annotations

import random
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from spark_connector_tests.query_process import wait_until
from tests.faults.spare_driver import SECONDS, SpareDriver
from tests.soak import few_or_many
from tutorial_pkg.connectors.cpu_log import CRASH_AT

DRIVER = Path(__file__).with_name("cpu_log_driver.py")
BATCH_BYTES = 60_000  # a little less than the 2000 lines of a batch take


class Feed:
    """A folder of numbered lines: every file becomes one batch, and the same one if repeated."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.folder.mkdir()
        self.items: list[str] = []

    def add(self, files: int, lines: int = 2000) -> None:
        for _ in range(files):
            items = [f"item {len(self.items) + number}" for number in range(lines)]
            draft = self.folder / ".draft"
            draft.write_text("".join(f"{item}\n" for item in items))
            draft.rename(self.folder / f"{len(self.items):09}")
            self.items += items


class Drill:
    """Drivers that write one feed into one log."""

    def __init__(self, tmp_path: Path, cleanup: ExitStack) -> None:
        self.path, self._cleanup = tmp_path, cleanup
        self.feed = Feed(tmp_path / "in")
        self.out = tmp_path / "out"
        self.out.mkdir()
        self._drivers: list[Driver] = []

    def driver(self, crash_at: str = "") -> Driver:
        """Start a driver's Spark; its query waits for `go`."""
        path = self.path / f"driver-{len(self._drivers) + 1}"
        words = (self.feed.folder, self.out, self.path / "query")
        driver = self._cleanup.enter_context(Driver(path, *words, crash_at=crash_at))
        self._drivers.append(driver)
        return driver

    def size(self) -> int:
        return sum(file.stat().st_size for file in self.out.glob("data.*.csv"))

    def contents(self) -> dict[str, bytes]:
        return {file.name: file.read_bytes() for file in self.out.glob("data.*.csv")}

    def staged(self) -> list[str]:
        return [file.name for file in (self.out / "_cpu_log" / "staged").iterdir()]


class Driver(SpareDriver):
    """`cpu_log_driver.py`, which creates the file `arrived` at its crash point."""

    def __init__(self, path: Path, *words: object, crash_at: str) -> None:
        self.arrived = path.with_suffix(".arrived")
        super().__init__(DRIVER, path, *words, **{CRASH_AT: f"{crash_at}@{self.arrived}"})


@pytest.fixture
def drill(tmp_path: Path) -> Iterator[Drill]:
    with ExitStack() as cleanup:
        yield Drill(tmp_path, cleanup)


def items_of(contents: dict[str, bytes]) -> Counter[str]:
    """Return the items of all lines, each of which must be complete."""
    assert all(content.endswith(b"\n") for content in contents.values()), "a torn line"
    lines = [line for content in contents.values() for line in content.decode().splitlines()]
    parts = [line.split(",") for line in lines]
    assert all(len(part) == 3 and len(part[0]) == 13 for part in parts), "a torn line"
    return Counter(item for _, _, item in parts)


def written(spark: SparkSession, feed: Feed, out: Path, checkpoint: Path) -> StreamingQuery:
    """Start a query that writes the whole feed, in the session of the tests."""
    stream = spark.readStream.option("maxFilesPerTrigger", 1).text(str(feed.folder))
    writer = stream.repartition(2).writeStream.format("cpu_log").trigger(availableNow=True)
    return writer.option("checkpointLocation", str(checkpoint)).start(str(out))


def grown(before: dict[str, bytes], after: dict[str, bytes]) -> bool:
    return all(after[name].startswith(content) for name, content in before.items())


def followed(spark: SparkSession, drill: Drill) -> StreamingQuery:
    """Start a streaming read of the log, into the table `followed`."""
    read = spark.readStream.format("cpu_log").load(str(drill.out)).select("item")
    writer = read.writeStream.format("memory").queryName("followed")
    return writer.trigger(processingTime="1 second").start()


# ---- kill -9 ---------------------------------------------------------------------------------

POINTS = ["staging", "staged", "recorded", "half_applied", "applied"]
ANY_TIME = ""


@few_or_many("deaths", ["half_applied"], [*POINTS, *[ANY_TIME] * 10])
def test_kills_keep_each_line_once(drill: Drill, spark: SparkSession, deaths: list[str]) -> None:
    """Kill one driver after another; in every batch, the first attempt of a task fails as well.

    The last driver is the session of the tests.
    """
    follower = followed(spark, drill)
    moment = random.Random(20261121)
    before: dict[str, bytes] = {}
    drivers = (drill.driver(death) for death in deaths)
    spare = next(drivers)
    for death in deaths:
        goal = drill.size() + moment.randrange(1, 4 * BATCH_BYTES)
        drill.feed.add(files=5)
        current = spare
        current.go()
        spare = next(drivers, current)
        if death == ANY_TIME:
            wait_until(lambda goal=goal: drill.size() >= goal, SECONDS, f"growth to {goal} bytes")
        else:
            wait_until(current.arrived.exists, SECONDS, "the drill's arrival")
        current.kill()
        now = drill.contents()
        assert grown(before, now), "taken back"
        before = now
    written(spark, drill.feed, drill.out, drill.path / "query").awaitTermination()
    assert grown(before, drill.contents()), "taken back"
    assert items_of(drill.contents()) == Counter(drill.feed.items)
    assert drill.staged() == []
    log = Path.cwd() / ".work" / "logs" / f"spark-{current.pid}.log"
    assert "this attempt fails on purpose" in log.read_text(errors="replace")
    follower.processAllAvailable()
    follower.stop()
    assert Counter(row.item for row in spark.table("followed").collect()) == Counter(
        drill.feed.items
    )
    spark.catalog.dropTempView("followed")


# ---- full disks ------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 2 MiB for the log."""
    disk = tmp_path / "disk"
    disk.mkdir()
    options = "size=2m,mode=0777"
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", disk])
    if mounted.returncode:
        pytest.skip("mounting a small file system needs root")
    yield disk
    subprocess.run(["umount", disk], check=True)


@pytest.mark.parametrize(
    ("lines", "file"),
    [
        (100_000, "_cpu_log/staged/"),  # 3.3 MB: not even staged
        (35_000, "data."),  # 1.2 MB: staged, but not applied
    ],
)
def test_commit_resumes_after_full_disk(
    spark: SparkSession, small_disk: Path, tmp_path: Path, lines: int, file: str
) -> None:
    feed = Feed(tmp_path / "in")
    feed.add(files=1, lines=100)
    out = small_disk / "out"

    def drain() -> None:
        written(spark, feed, out, tmp_path / "checkpoint").awaitTermination()

    drain()
    feed.add(files=1, lines=lines)
    before = {file.name: file.read_bytes() for file in out.glob("data.*.csv")}
    with pytest.raises(StreamingQueryException) as failed:
        drain()
    assert f"[Errno 28] No space left on device: '{out}/{file}" in str(failed.value)
    after = {file.name: file.read_bytes() for file in out.glob("data.*.csv")}
    assert grown(before, after)
    rows = spark.read.format("cpu_log").load(str(out)).collect()
    assert not Counter(row.item for row in rows) - Counter(feed.items), "torn or repeated"
    subprocess.run(["mount", "-o", "remount,size=16m", small_disk], check=True)
    drain()
    contents = {file.name: file.read_bytes() for file in out.glob("data.*.csv")}
    assert grown(after, contents)
    assert items_of(contents) == Counter(feed.items)
    assert list((out / "_cpu_log" / "staged").iterdir()) == []
