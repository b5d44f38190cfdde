"""Notebook 17's final test: a driver to kill, and a plot of the lines over time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from spark_connector_tests.driver import Drivers
from workbook.ledger_drill import with_retries
from workbook.network_to_log import network_to_log
from workbook.plots import BLUE, GRAY, GREEN, chart, picture, shade_outage
from workbook.senders import kill_a_worker


@dataclass(frozen=True)
class Copying:
    """The query: it copies the lines in `folder/network` to the CPU log `folder/out`."""

    folder: str
    port: int

    def start(self, spark: SparkSession) -> StreamingQuery:
        return network_to_log(spark, self.folder, self.port, 1)


class NetworkDriver:
    """A Spark driver that runs the query, and a second one whose Spark is ready to replace it."""

    def __init__(self, spark: SparkSession, folder: Path, port: int) -> None:
        (folder / "drivers").mkdir(parents=True)
        self._query = Copying(str(folder), port)
        self._drivers = Drivers(spark, folder / "drivers", with_retries)
        self._start()
        self._drivers.prepare()

    def _start(self) -> None:
        self._driver = self._drivers.take()
        self._driver.go(self._query)

    @property
    def running(self) -> bool:
        return self._driver.running

    def kill(self) -> None:
        """`kill -9` the driver."""
        self._driver.kill()

    def kill_worker(self) -> None:
        """`kill -9` a Python worker, if one runs a task now."""
        kill_a_worker(self._driver)

    def again(self) -> NetworkDriver:
        """Run the query again, in the driver that is ready."""
        self._start()
        return self


def draw_lines(
    history: Sequence[tuple[float, int, int, int]], kills: Sequence[tuple[str, float, int]]
) -> None:
    """Plot the lines over time: written to the file, in the log, and published.

    `history` has (seconds, written, in the log, published), and `kills` has (name, seconds, number
    of lines written before the restart).
    """
    start = history[0][0]
    seconds = [moment - start for moment, *_ in history]
    figure, axes = chart("seconds", "lines", height=3.4)
    for number, (name, begin, goal) in enumerate(kills):
        end = next(moment for moment, *_, published in history if published >= goal)
        shade_outage(axes, number, name, (begin - start, end - start))
    styles = (("written", GRAY, 5), ("in the log", GREEN, 2), ("published", BLUE, 2))
    for column, (name, color, width) in enumerate(styles, start=1):
        counts = [moment[column] for moment in history]
        axes.plot(seconds, counts, color=color, lw=width)
        look = {"color": color, "weight": "bold", "ha": "right", "transform": axes.transAxes}
        axes.text(0.99, 0.34 - 0.1 * column, name, **look)
    axes.set_ylim(0, 1.3 * history[-1][1])
    alt = (
        "Three rising lines: written, in the log, and published. After the sender or the receiver "
    )
    alt += "is killed, only the written lines go up. After the driver is killed, the published "
    alt += "lines stand still. Each time they catch up."
    picture(figure, alt=alt)
