"""Record what the explainers show: run real queries, store what they do, and draw it.

    python -m tests.integration.record_explainers

`tests/integration/test_explainers.py` checks that the queries still do the same.
"""

from __future__ import annotations

import json
import tempfile
import threading
from collections.abc import Iterator
from datetime import datetime
from itertools import product
from pathlib import Path
from typing import Any

import psutil
from matplotlib.figure import Figure
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.listener import StreamingQueryProgress

from spark_connector_tests.query_process import QueryProcess, wait_until
from tutorial_pkg import network_status, send_lines, start_spark
from tutorial_pkg.connectors.cpu_log import CRASH_AT
from tutorial_pkg.connectors.network_lines.receiver import receive
from tutorial_pkg.durable_log.segments import read_frames
from workbook import network_to_log
from workbook.explainers import ARRIVALS, AT_FIRST, HERE, STEPS, WINDOW, recorded
from workbook.plots import BLUE, GRAY, GREEN, ORANGE, RED, chart
from workbook.senders import HOST, free_ports

POSITIONS = (3, 8, 12, 19, 26, 34, 42, 48)  # of the row that can be dragged, in seconds
DELAYS = (0, 5, 10, 15, 20, 30)
EARLIER = ["line 1"]
BATCH = (["line 2", "line 3"], ["line 4", "line 5"])  # for the first port and for the second
SHOWN_PORT = 11000  # instead of the first one, which differs from run to run
PORTS = len(BATCH)
SECONDS = 120

Files = dict[str, Any]  # by name, what is in them
Places = dict[str, Files]  # log, checkpoint and sink

_BEGIN = 1_600_000_000  # second 0, in seconds since 1970


# ---- The watermark -------------------------------------------------------------------------------


def watermark_grid(spark: SparkSession, folder: Path) -> Iterator[dict[str, Any]]:
    """All runs, by real queries that work in `folder`."""
    choices = product(DELAYS, POSITIONS)
    return (
        run_watermark(spark, folder / f"{delay}-{second}", delay, second)
        for delay, second in choices
    )


def run_watermark(spark: SparkSession, folder: Path, delay: int, second: int) -> dict[str, Any]:
    """Run a query with a watermark of `delay` seconds and the dragged row at `second`.

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


# ---- The crash -----------------------------------------------------------------------------------


def run_crash(spark: SparkSession, folder: Path, port: int, point: str) -> dict[str, Any]:
    """Record the files when a driver is at `point`, when it was killed, and after a restart."""
    folder.mkdir(parents=True)
    _write_earlier_batch(spark, folder, port)
    if point != "logged":
        _log_the_batch(folder, port)
    arrived, output = folder / "arrived", folder / "driver.log"
    script, switch = Path(network_to_log.__file__), {CRASH_AT: f"{point}@{arrived}"}
    with QueryProcess(script, folder, port, PORTS, output=output, env=switch) as driver:
        if point == "logged":
            _send_to_a_sleeping_spark(driver, folder, port)
        wait_until(lambda: _is_at(point, folder, port), SECONDS, f"{point}, see {output}")
        now = places(folder, port)
        driver.kill()
        _wait_for_silence(folder)
        killed = places(folder, port)
    query = network_to_log.network_to_log(spark, str(folder), port, PORTS)
    query.processAllAvailable()
    query.stop()
    return {"point": point, "now": now, "killed": killed, "restarted": places(folder, port)}


def _write_earlier_batch(spark: SparkSession, folder: Path, port: int) -> None:
    """Batch 0, in which Spark looks at an empty log, and batch 1, with a line."""
    query = network_to_log.network_to_log(spark, str(folder), port, PORTS)
    wait_until(lambda: _listens(folder) and _is_done(folder, 0), SECONDS, "batch 0")
    send_lines(HOST, port, EARLIER)
    wait_until(lambda: _is_done(folder, 1), SECONDS, "batch 1")
    query.stop()
    _wait_for_silence(folder)


def _log_the_batch(folder: Path, port: int) -> None:
    """A receiver takes the lines while no query runs, so that the next one has all in one batch."""
    options, enough = {"port": str(port), "parallelism": str(PORTS)}, threading.Event()
    work = folder / "network", options, enough
    receiver = threading.Thread(target=receive, args=work)
    receiver.start()
    try:
        wait_until(lambda: _listens(folder), SECONDS, "a receiver")
        _send_the_batch(port)
    finally:
        enough.set()
        receiver.join()


def _send_to_a_sleeping_spark(driver: QueryProcess, folder: Path, port: int) -> None:
    """The ports belong to a Python beside Spark. It is awake, and puts the lines on disk."""
    wait_until(lambda: _listens(folder), SECONDS, "a driver that listens")
    family = psutil.Process(driver.pid).children(recursive=True)
    next(process for process in family if process.name() == "java").suspend()
    _send_the_batch(port)


def _send_the_batch(port: int) -> None:
    for number, lines in enumerate(BATCH):
        send_lines(HOST, port + number, lines)


def _is_at(point: str, folder: Path, port: int) -> bool:
    """Two tasks and a thread run for a moment after the first of them has arrived."""
    if point == "committed":
        return _is_done(folder, 2)
    if point != "logged" and not (folder / "arrived").exists():
        return False
    sink = _published(folder / "out")
    if point in ("staging", "staged", "recorded"):
        return sum(name.startswith("staged") for name in sink) == len(BATCH)
    return point != "half_applied" or len(sink["data.0.csv"]) > len(EARLIER)


def _wait_for_silence(folder: Path) -> None:
    """The Python that listens outlives its query for a moment."""
    wait_until(lambda: not _listens(folder), SECONDS, "the end of the listener")


def _listens(folder: Path) -> bool:
    return (folder / "network").exists() and network_status(folder / "network").listening


def _is_done(folder: Path, batch: int) -> bool:
    return (folder / "checkpoint" / "commits" / str(batch)).exists()


# ---- The files -----------------------------------------------------------------------------------


def places(folder: Path, port: int) -> Places:
    """The files of the log, the checkpoint and the sink, without what differs from run to run."""
    return {
        "log": {f"port {SHOWN_PORT + at}": _logged(folder, port + at) for at in range(PORTS)},
        "checkpoint": _noted(folder / "checkpoint", port),
        "sink": _published(folder / "out"),
    }


def _logged(folder: Path, port: int) -> list[str]:
    """The lines in a port's segments."""
    segments = sorted((folder / "network" / str(port)).glob("*.segment"))
    if not segments or not segments[-1].stat().st_size:
        return []
    first, last = (int(segment.stem) for segment in (segments[0], segments[-1]))
    frames = read_frames(segments[0].parent, first, last + segments[-1].stat().st_size)
    return [line for _, payload in frames for line in bytes(payload).decode().splitlines()]


def _noted(checkpoint: Path, port: int) -> Files:
    """The offsets, a position for each port, and which batches are done."""
    found: Files = {}
    for note in sorted((checkpoint / "offsets").glob("[0-9]")):
        offset = json.loads(note.read_text().splitlines()[2])
        ends = [(SHOWN_PORT + at, offset[str(port + at)]) for at in range(PORTS)]
        texts = [f"port {shown} up to byte {end}" for shown, end in ends]
        found[f"offsets/{note.name}"] = texts
    for note in sorted((checkpoint / "commits").glob("[0-9]")):
        found[f"commits/{note.name}"] = ["done"]
    return found


def _published(out: Path) -> Files:
    """The items of each file, and what the record says."""
    found = {file.name: _items(file) for file in sorted(out.glob("data.*.csv"))}
    staged = sorted(map(_items, (out / "_cpu_log" / "staged").iterdir()))
    found |= {f"staged by task {at}": items for at, items in enumerate(staged)}
    record = json.loads(json.loads((out / "_cpu_log" / "record.json").read_text())["body"])
    places = [f"to {piece['target']}, byte {piece['offset']}" for piece in record["pieces"]]
    [done] = record["done"].values()
    return found | {"record.json": [f"batch {done} is done", *places]}


def _items(file: Path) -> list[str]:
    return [line.split(",", 2)[2] for line in file.read_text().splitlines()]


def store(name: str, runs: Iterator[dict[str, Any]]) -> None:
    """One run a line, so that a change can be read."""
    (HERE / f"{name}.json").write_text("[\n" + ",\n".join(map(json.dumps, runs)) + "\n]\n")


# ---- The images for pages without widgets --------------------------------------------------------


def draw_watermark(runs: list[dict[str, Any]]) -> Figure:
    """Draw the rows of a run that drops one, the watermark, and the windows it has closed."""
    some = (run for run in runs if run["delay"] == AT_FIRST["delay"])
    run = next(run for run in some if any(step["dropped"] for step in run["steps"]))
    figure, axes = chart("rows, in the order of arrival", "event time in seconds", height=3.6)
    times = [run["second"] if time is None else time for time in ARRIVALS]
    last = len(times)
    for row, step in enumerate(run["steps"], start=1):
        for start, count in step["closed"]:
            axes.fill_between([row, last + 1], start, start + WINDOW, color=GRAY, alpha=0.25)
            text = f"closed: {count} row{'s' * (count != 1)}"
            axes.text(last + 0.95, start + WINDOW / 2, text, ha="right", va="center")
    for row, (second, step) in enumerate(zip(times, run["steps"], strict=True), start=1):
        dropped = step["dropped"]
        color, marker = (RED, "x") if dropped else (BLUE, "o")
        axes.plot(row, second, marker, ms=9, mew=2, color=color)
        name = "dropped" if dropped else "counted"
        axes.text(row, second + 2, name, color=color, ha="center", va="bottom")
    marks = [step["watermark"] for step in run["steps"]]
    axes.step([*range(1, last + 2)], [*marks, marks[-1]], color="black", where="post")
    axes.text(3.05, 13.5, f"watermark: {run['delay']} s behind", va="bottom")
    axes.set(xlim=(0.5, last + 1), ylim=(0, 50), xticks=range(1, last + 1))
    return figure


def draw_crash(runs: list[dict[str, Any]]) -> Figure:
    """Numbers of lines: where they were when the query was killed, and after the restart."""
    figure, axes = chart("killed when the batch was …", "", height=2.6)
    counts = {
        "in the source's log": (GRAY, [_count(run["killed"]["log"], "port") for run in runs]),
        "staged": (ORANGE, [_count(run["killed"]["sink"], "staged") for run in runs]),
        "seen by readers": (BLUE, [_count(run["killed"]["sink"], "data") for run in runs]),
        "after the restart": (GREEN, [_count(run["restarted"]["sink"], "data") for run in runs]),
    }
    for row, (color, numbers) in enumerate(counts.values()):
        for step, number in enumerate(numbers):
            style = {"color": color, "ha": "center", "va": "center", "fontsize": 14}
            axes.text(step, row, str(number), **style)
    axes.axvline(2.5, color="black", ls="--")
    axes.text(2.5, -0.75, "the record is in place", ha="center")
    axes.set(xlim=(-0.5, len(runs) - 0.5), ylim=(3.6, -0.6))
    axes.set_xticks(range(len(runs)), [name for name, *_ in STEPS.values()])
    axes.set_yticks(range(len(counts)), list(counts))
    axes.grid(visible=False)
    return figure


def _count(files: dict[str, Any], kind: str) -> int:
    return sum(len(lines) for name, lines in files.items() if name.startswith(kind))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        small: dict[str, Any] = {"spark.sql.shuffle.partitions": "1"}
        spark = start_spark("explainers", **small)
        store("watermark", watermark_grid(spark, Path(folder, "watermark")))
        port = free_ports(PORTS)
        store("crash", (run_crash(spark, Path(folder, point), port, point) for point in STEPS))
        spark.stop()
    draw_watermark(recorded("watermark")).savefig(HERE / "watermark.png")
    draw_crash(recorded("crash")).savefig(HERE / "crash.png")
