"""Power failures: copies of a file system's image, taken while it is written, and mounted later.

A copy holds what the kernel had written to the disk: everything that was synced, and part of the
rest. Spark doesn't sync its checkpoint.
"""

from __future__ import annotations

import os
import random
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from spark_connector_tests.query_process import wait_until
from tests.faults.log_account import LogAccount
from tests.faults.network_to_log_driver import start_query
from tests.faults.spare_driver import SECONDS
from tests.soak import few_or_many
from tutorial_pkg import network_status

IMAGE_BYTES = 32 << 20
HOLE = bytes(1 << 16)


class Disk:
    """A file system in an image: it can be copied while it is written."""

    def __init__(self, folder: Path) -> None:
        self.image, self.mount_point = folder / "image", folder / "disk"
        self.mount_point.mkdir()
        with self.image.open("wb") as image:
            image.truncate(IMAGE_BYTES)
        subprocess.run(["mkfs.ext4", "-q", "-F", self.image], check=True)

    @contextmanager
    def mounted(self, image: Path) -> Iterator[Path]:
        command = ["mount", "-o", "loop", image, self.mount_point]
        if subprocess.run(command, stderr=subprocess.DEVNULL).returncode:
            pytest.skip("mounting a file system's image needs root and a loop device")
        try:
            yield self.mount_point
        finally:
            wait_until(self._umounted, SECONDS, "the end of all that has files open")

    def _umounted(self) -> bool:
        if not subprocess.run(["umount", self.mount_point], stderr=subprocess.DEVNULL).returncode:
            return True
        # If a query is stopped in the middle of a write to its checkpoint, Spark leaves the file
        # open until its JVM collects garbage.
        if SparkContext._jvm:
            SparkContext._jvm.System.gc()
        return False

    def copy(self, to: Path, writers: list[psutil.Process]) -> None:
        """Copy what a power failure would leave now, while the writers stand still."""
        with _standing_still(writers):
            before, now = b"", self.image.read_bytes()
            while before != now:
                before, now = now, self.image.read_bytes()
        with to.open("wb") as file:
            for start in range(0, len(now), len(HOLE)):
                block = now[start : start + len(HOLE)]
                file.seek(start)
                if block != HOLE:
                    file.write(block)
            file.truncate(len(now))


@contextmanager
def _standing_still(processes: list[psutil.Process]) -> Iterator[None]:
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.suspend()
    try:
        yield
    finally:
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                process.resume()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    """In memory, so that the copies take milliseconds."""
    if os.geteuid() or not Path("/dev/loop-control").exists():
        pytest.skip("mounting a file system's image needs root and a loop device")
    memory = tmp_path / "memory"
    memory.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", memory], check=True)
    try:
        yield Disk(memory)
    finally:
        subprocess.run(["umount", memory], check=True)


@few_or_many("failures", 1, 20)
def test_power_failure_keeps_each_line_once(
    spark: SparkSession, disk: Disk, tmp_path: Path, free_ports: Callable[[int], int], failures: int
) -> None:
    port = free_ports(1)
    with disk.mounted(disk.image):
        copies = _copies_while_it_is_written(spark, disk, tmp_path, port, failures)
    for copy, confirmed in copies.items():
        with disk.mounted(copy) as directory:
            _delete_empty_files(directory / "checkpoint")
            start_query(spark, directory, port, availableNow=True).awaitTermination()
            rows = spark.read.format("cpu_log").load(str(directory / "out")).collect()
            items = Counter(row.item for row in rows)
        assert confirmed
        assert not confirmed - items.keys(), "confirmed lines are lost"
        assert set(items.values()) == {1}, "duplicates"


def _delete_empty_files(checkpoint: Path) -> None:
    """Spark refuses an empty file in its checkpoint; its batch was never recorded by us."""
    for file in checkpoint.rglob("*"):
        if file.is_file() and not file.stat().st_size:
            file.unlink()


def _copies_while_it_is_written(
    spark: SparkSession, disk: Disk, folder: Path, port: int, failures: int
) -> dict[Path, set[str]]:
    """Return each copy with the lines that were confirmed before it was taken."""
    copies, moment, directory = {}, random.Random(20261121), disk.mount_point
    query = start_query(spark, directory, port, processingTime="100 milliseconds")
    wait_until(lambda: network_status(directory / "log").listening, SECONDS, "listening")
    account = LogAccount(directory / "out", port)
    with account.sending():
        wait_until(lambda: any(directory.glob("out/*.csv")), SECONDS, "the first batch")
        for number in range(failures):
            time.sleep(moment.uniform(0, 3))  # a random moment is what this is about
            copy = folder / f"copy-{number}"
            copies[copy] = set(account.confirmed)
            disk.copy(copy, psutil.Process().children(recursive=True))
    query.stop()
    return copies
