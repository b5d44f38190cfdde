"""file_lines under kill -9, beside a writer that appends and rotates."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from spark_connector_tests.query_process import wait_until
from tests.faults.file_lines_driver import copied
from tests.faults.spare_driver import SECONDS, SpareDriver
from tests.soak import few_or_many

DRIVER = Path(__file__).with_name("file_lines_driver.py")


class Writer(threading.Thread):
    """Appends numbered lines in two writes that part within a line, and rotates now and then."""

    def __init__(self, log: Path) -> None:
        super().__init__()
        self._log = log
        self._stopped = threading.Event()
        self.written = 0
        self.rotations = 0

    def run(self) -> None:
        chance = random.Random(3)
        while not self._stopped.wait(0.02):
            self._append(chance.randrange(1, 100))
            if chance.random() < 0.03:
                self.rotations += 1
                self._log.rename(f"{self._log}.{self.rotations}")

    def _append(self, count: int) -> None:
        lines = "".join(f"{number}\n" for number in range(self.written, self.written + count))
        with self._log.open("a") as file:
            file.write(lines[: len(lines) // 2])
            file.flush()
            file.write(lines[len(lines) // 2 :])
        self.written += count

    def stop(self) -> None:
        self._stopped.set()
        self.join()


@contextmanager
def writing(log: Path) -> Iterator[Writer]:
    writer = Writer(log)
    writer.start()
    try:
        yield writer
    finally:
        writer.stop()


@few_or_many("kills", 1, 8)
def test_kills_beside_a_rotating_writer(spark, tmp_path, kills: int):
    """All names match, so that files that came and went while the query was down are read too."""
    (tmp_path / "logs").mkdir()
    out = tmp_path / "out"
    chance = random.Random(9)
    with writing(tmp_path / "logs" / "data.csv") as writer:
        for round_ in range(kills):
            before = committed_batches(out)
            with SpareDriver(DRIVER, tmp_path / f"driver-{round_}", tmp_path) as driver:
                driver.go()
                wait_until(lambda n=before: committed_batches(out) > n, SECONDS, "a batch")
                wait_until(lambda c=chance: c.random() < 0.1, SECONDS, "the random moment")
                driver.kill()
        wait_until(lambda: writer.rotations, SECONDS, "a rotation")
    copied(spark, tmp_path, availableNow=True).awaitTermination()
    rows = Counter(row.value for row in spark.read.parquet(str(out)).collect())
    assert rows == Counter(map(str, range(writer.written)))


def committed_batches(out: Path) -> int:
    """Return how many batches the Parquet sink has committed."""
    return len(list((out / "_spark_metadata").glob("[0-9]*")))
