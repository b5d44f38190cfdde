"""Notebook 17's final test: a sender, a receiver, a worker and a driver are killed."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from spark_connector_tests.driver import Drivers
from spark_connector_tests.query_process import wait_until
from workbook.inside import newest_frame
from workbook.ledger_drill import with_retries
from workbook.network_to_log import network_to_log
from workbook.plots import BLUE, GRAY, GREEN, chart, picture, shade_outage
from workbook.senders import Command, kill_a_worker

SECONDS = 300
PAUSE, LINES = 0.1, 20  # 200 lines per second


@dataclass(frozen=True)
class Copying:
    """The query: it copies the lines in `folder/network` to the CPU log `folder/out`."""

    folder: str
    port: int

    def start(self, spark: SparkSession) -> StreamingQuery:
        return network_to_log(spark, self.folder, self.port, 1)


class LinesDrill:
    """A growing file whose lines end up in a CPU log; every process on the way can be killed.

    `sender` follows the file under the name `growing`, `receiver` writes the log, and a driver of
    the drill's own publishes it.
    """

    def __init__(
        self, spark: SparkSession, log: Path, port: int, file: Path, **commands: Command
    ) -> None:
        self._log, self._file, self._folder = log / str(port), file, log.parent
        (self._folder / "drivers").mkdir(parents=True)
        self._query = Copying(str(self._folder), port)
        self._drivers = Drivers(spark, self._folder / "drivers", with_retries)
        self._processes: dict[str, Any] = {**commands, "driver": self._drivers.take()}
        self._processes["driver"].go(self._query)
        self._written, self._killed = 0, 0.0
        self._kills: list[tuple[str, float, int]] = []
        self._history: list[tuple[float, int, int, int]] = []
        self._write(1_000)
        wait_until(lambda: len(self._published()) == self._written, SECONDS, "the first lines")
        self._drivers.prepare()

    def write_lines(self, seconds: float) -> None:
        """Write 200 lines per second to the file."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._write_and_count()

    def kill(self, name: str) -> None:
        """`kill -9` the sender, the receiver, the driver, or a worker that runs a task."""
        self._killed = time.monotonic()
        if name == "worker":
            kill_a_worker(self._processes["driver"])
        else:
            self._processes[name].kill()

    def restart(self, name: str) -> None:
        """Start it again; Spark has replaced a worker already."""
        self._kills.append((name, self._killed, self._written))
        if name == "driver":
            self._processes[name] = self._drivers.take()
            self._processes[name].go(self._query)
        elif name != "worker":
            self._processes[name] = self._processes[name].again()

    def catch_up(self) -> None:
        """Write more lines until all those from before are published."""
        goal = self._written
        while self._write_and_count() < goal:
            pass

    def lost_and_duplicated(self) -> tuple[int, int]:
        """Wait for the last lines, and return the number of lost and of duplicated ones."""
        with suppress(TimeoutError):  # the numbers say what is missing
            wait_until(lambda: len(self._published()) == self._written, SECONDS, "all lines")
        lines = self._published()
        return self._written - len(lines), lines.total() - len(lines)

    def _write(self, count: int) -> None:
        with self._file.open("a") as file:
            file.writelines(f"line {self._written + number:06}\n" for number in range(count))
        self._written += count

    def _write_and_count(self) -> int:
        self._write(LINES)
        line, _ = newest_frame(self._log, "growing")
        published = len(self._published())
        counts = self._written, int(line.split()[1]) + 1, published
        self._history.append((time.monotonic(), *counts))
        time.sleep(PAUSE)
        return published

    def _published(self) -> Counter[str]:
        files = self._folder.glob("out/data.*.csv")
        lines = [line for file in files for line in file.read_text().splitlines()]
        return Counter(line.split(",", 2)[-1] for line in lines if ",line " in line)

    def draw(self) -> None:
        """Plot the lines over time: written to the file, in the log, and published."""
        seconds, *curves = zip(*self._history, strict=True)
        figure, axes = chart("seconds", "lines", height=3.4)
        for number, (name, begin, goal) in enumerate(self._kills):
            end = next(second for second, *_, count in self._history if count >= goal)
            shade_outage(axes, number, name, (begin - seconds[0], end - seconds[0]))
        styles = (("written", GRAY, 5), ("in the log", GREEN, 2), ("published", BLUE, 2))
        for row, (counts, (name, color, width)) in enumerate(zip(curves, styles, strict=True)):
            axes.plot([second - seconds[0] for second in seconds], counts, color=color, lw=width)
            look = {"color": color, "weight": "bold", "ha": "right", "transform": axes.transAxes}
            axes.text(0.99, 0.24 - 0.1 * row, name, **look)
        axes.set_ylim(0, 1.3 * self._written)
        alt = "Three rising lines: written, in the log, and published. After the sender or the "
        alt += "receiver is killed, only the written lines go up. After the driver is killed, the "
        alt += "published lines stand still. Each time they catch up."
        picture(figure, alt=alt)
