"""Checkpoints and logs of one Spark version work with the next one, and no line is lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from spark_connector_tests.query_process import QueryProcess, wait_until
from tests.versions import moving
from tests.versions.environments import NEWEST, OLDER, ROOT, spark_of, whole_python
from tutorial_pkg import network_status, send_lines

SECONDS = 180
LINES = 50  # some batches of them


@pytest.mark.soak
@pytest.mark.parametrize("versions", [(OLDER[0], NEWEST)], ids="-".join)
def test_newer_spark_resumes_old_checkpoints(
    versions: tuple[str, ...], tmp_path: Path, free_ports: Callable[[int], int]
) -> None:
    port, lines = free_ports(1), Lines(tmp_path)
    for spark in versions:
        python = whole_python(spark)
        assert spark_of(python).startswith(spark)
        lines.write(LINES)  # while no query runs
        settings = {"PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": str(python)}
        with QueryProcess(
            Path(moving.__file__),
            tmp_path,
            port,
            python=python,
            output=tmp_path / spark,
            env=settings,
        ) as driver:
            lines.write(LINES)
            wait_until(lambda: listening(driver, tmp_path / "log"), SECONDS, "listening")
            send_lines("127.0.0.1", port, lines.sent(LINES))
            wait_until(lambda: lines.have_come(driver), SECONDS, "all lines written")
            if spark != versions[-1]:
                driver.kill()
            else:
                (tmp_path / "stop").touch()
                driver.wait(SECONDS)
    lines.check()


def listening(driver: QueryProcess, log: Path) -> bool:
    assert driver.running, driver.output.read_text()
    return log.exists() and network_status(log).listening


class Lines:
    """Numbered lines, in a file and to a port, and what has become of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.written: list[str] = []
        self.through_the_port: list[str] = []

    def write(self, count: int) -> None:
        new = [f"written {len(self.written) + place}" for place in range(count)]
        with (self.folder / "in.txt").open("a") as file:
            file.write("".join(f"{line}\n" for line in new))
        self.written += new

    def sent(self, count: int) -> list[str]:
        new = [f"sent {len(self.through_the_port) + place}" for place in range(count)]
        self.through_the_port += new
        return new

    def have_come(self, driver: QueryProcess) -> bool:
        assert driver.running, driver.output.read_text()
        counted = len(self.of("counted"))
        return counted > len(self.written) and all(
            len(self.of(name)) >= len(wanted) for name, wanted in self.wanted().items()
        )

    def check(self) -> None:
        """Each line is there once, in order."""
        counted = self.of("counted")
        assert counted == [f"counted {number}" for number in range(len(counted))]
        assert {name: self.of(name) for name in self.wanted()} == self.wanted()

    def wanted(self) -> dict[str, list[str]]:
        return {"file": self.written, "asked": self.written, "port": self.through_the_port}

    def of(self, name: str) -> list[str]:
        """The items that a query has written."""
        files = sorted((self.folder / f"{name}-out").glob("data.*.csv"))
        assert len(files) <= 1, files
        text = files[0].read_text() if files else ""
        return [line.split(",", 2)[2] for line in text.splitlines()]
