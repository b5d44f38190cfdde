"""The watermark, to play with: when an event happened, how long to wait, and what that decides.

Each run is a real query: seven rows, one in each micro-batch, counted in windows of ten seconds.
The event time of one of the rows and the delay of the watermark differ from run to run.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from itertools import product
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.listener import StreamingQueryProgress

from workbook.explainers.widget import HERE, Explainer, stored
from workbook.look import BLUE, GRAY, RED, chart

FILE = "watermark.json"
ARRIVALS = (5, 16, 23, None, 14, 33, 41)  # event times in seconds; None is the row to be dragged
POSITIONS = (3, 8, 12, 19, 26, 34, 42, 48)
DELAYS = (0, 5, 10, 15, 20, 30)
WINDOW = 10
AT_FIRST = {"delay": 10, "second": 26}

_BEGIN = 1_600_000_000  # second 0, in seconds since 1970


class WatermarkExplainer(Explainer):
    _esm = HERE / "watermark.js"


def watermark_explainer() -> WatermarkExplainer:
    """The explainer; its choices are `POSITIONS` and `DELAYS`."""
    runs = stored(FILE)
    data = {"arrivals": ARRIVALS, "window": WINDOW, "runs": runs, **AT_FIRST}
    first = next(run for run in runs if AT_FIRST.items() <= run.items())
    return WatermarkExplainer("The watermark, to play with", data, still(first))


# ---- Recording -----------------------------------------------------------------------------------


def grid(spark: SparkSession, folder: Path) -> Iterator[dict[str, Any]]:
    """All runs, by real queries that work in `folder`."""
    choices = product(DELAYS, POSITIONS)
    return (run(spark, folder / f"{delay}-{second}", delay, second) for delay, second in choices)


def run(spark: SparkSession, folder: Path, delay: int, second: int) -> dict[str, Any]:
    """What a query does with a watermark of `delay` seconds when the dragged row is at `second`.

    Each step is one row: whether it was dropped, where the watermark was afterwards (None before
    the first row), and which windows were closed then, with how many rows.
    """
    folder.mkdir(parents=True)
    file, closed = folder / "rows.log", dict[int, list[list[int]]]()
    file.touch()

    def take(windows: DataFrame, batch: int) -> None:
        found = windows.selectExpr("CAST(window.start AS LONG) AS start", "count").collect()
        closed[batch] = sorted([row["start"] - _BEGIN, row["count"]] for row in found)

    writer = _counted(spark, file, delay).writeStream.foreachBatch(take)
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).start()
    for time in ARRIVALS:
        with file.open("a") as rows:
            rows.write(f"{1000 * (_BEGIN + (second if time is None else time))},0.5,a row\n")
        query.processAllAvailable()
    query.stop()
    return {"delay": delay, "second": second, "steps": _steps(query.recentProgress, closed)}


def _counted(spark: SparkSession, file: Path, delay: int) -> DataFrame:
    reader = spark.readStream.format("file_lines").option("eventTime", "millis_prefix")
    lines = reader.load(str(file))
    on_time = lines.withWatermark("event_time", f"{delay} seconds")
    return on_time.groupBy(F.window("event_time", f"{WINDOW} seconds")).count()


def _steps(
    batches: list[StreamingQueryProgress], closed: dict[int, list[list[int]]]
) -> list[dict[str, Any]]:
    """A row that moves the watermark is followed by a batch without rows, which closes windows."""
    steps: list[dict[str, Any]] = []
    for batch in batches:
        if batch.numInputRows:
            dropped = sum(each.numRowsDroppedByWatermark for each in batch.stateOperators)
            steps.append({"dropped": bool(dropped), "watermark": None, "closed": []})
        if not steps:
            continue  # before the first row
        steps[-1]["watermark"] = _second(batch.eventTime["watermark"])
        steps[-1]["closed"] += closed.get(batch.batchId, [])
    return steps


def _second(watermark: str) -> int | None:
    second = round(datetime.fromisoformat(watermark).timestamp()) - _BEGIN
    return None if second == -_BEGIN else second


# ---- The still image -----------------------------------------------------------------------------


def still(run: dict[str, Any]) -> Figure:
    """One run: rows in the order of arrival, the watermark, and the windows that it has closed."""
    figure, axes = chart("rows, in the order of arrival", "event time in seconds", height=3.6)
    times = [run["second"] if time is None else time for time in ARRIVALS]
    last = len(times)
    for row, step in enumerate(run["steps"], start=1):
        for start, count in step["closed"]:
            _ = axes.fill_between([row, last + 1], start, start + WINDOW, color=GRAY, alpha=0.25)
            text = f"closed: {count} row{'s' * (count != 1)}"
            _ = axes.text(last + 0.95, start + WINDOW / 2, text, ha="right", va="center")
    for dropped, color, name in ((False, BLUE, "counted"), (True, RED, "dropped")):
        rows = [at for at, step in enumerate(run["steps"]) if step["dropped"] == dropped]
        marks = {"marker": "x" if dropped else "o", "ls": "", "ms": 9, "mew": 2, "color": color}
        _ = axes.plot([at + 1 for at in rows], [times[at] for at in rows], label=name, **marks)
    marks_at = [step["watermark"] for step in run["steps"]]
    line = [*marks_at, marks_at[-1]]
    name = f"watermark, {run['delay']} s"
    _ = axes.plot(range(1, last + 2), line, color="black", drawstyle="steps-post", label=name)
    _ = axes.set(xlim=(0.5, last + 1), ylim=(0, 50), xticks=range(1, last + 1))
    _ = figure.legend(loc="outside upper right", ncols=3)
    return figure
