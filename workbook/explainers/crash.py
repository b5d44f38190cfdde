"""The crash, to play with: a micro-batch from the log to Spark's note, killed at any step.

Each run is a real query, `network_lines` to `cpu_log`, in a driver of its own. An earlier batch
has written a line. Then four lines come to two ports, and `kill -9` finds the driver at one of the
`STEPS`. Stored is what was on the disk before the kill, after it, and after a restart.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import psutil
from matplotlib.figure import Figure
from pyspark.sql import SparkSession

from spark_connector_tests.query_process import QueryProcess, wait_until
from tutorial_pkg import network_status, send_lines
from tutorial_pkg.connectors.cpu_log import CRASH_AT
from tutorial_pkg.connectors.network_lines.receiver import receive
from tutorial_pkg.durable_log.segments import read_frames
from workbook import network_to_log
from workbook.explainers.widget import HERE, Explainer, stored
from workbook.look import BLUE, GRAY, GREEN, ORANGE, chart
from workbook.senders import HOST

FILE = "crash.json"
EARLIER = ["line 1"]
BATCH = (["line 2", "line 3"], ["line 4", "line 5"])  # for the first port and for the second
ALL = sorted([*EARLIER, *BATCH[0], *BATCH[1]])
SHOWN_PORT = 11000  # instead of the first one, which differs from run to run
PORTS = len(BATCH)
SECONDS = 120

Files = dict[str, Any]  # by name, what is in them
Places = dict[str, Files]  # log, checkpoint and sink


class Step(NamedTuple):
    """Of a batch: its name, what has happened, and what the restart after a kill there did."""

    name: str
    happened: str
    repair: str


STEPS = {  # by the point of the crash
    "logged": Step(
        "logged",
        "The lines are in the source's log, on disk. Spark does not know of them yet.",
        "The new query asked the source how far its log goes, and planned the batch.",
    ),
    "staging": Step(
        "planned",
        "Spark has noted how far the batch goes: offsets/2. Its tasks write to files that no "
        "reader looks at.",
        "offsets/2 is there and commits/2 is not. So Spark ran the batch again, with the same "
        "offsets. What the dead tasks had left was removed.",
    ),
    "staged": Step(
        "staged",
        "The tasks are done, and all lines are staged. The sink's commit begins.",
        "No record named the staged files. Spark ran the batch again, and they were removed.",
    ),
    "recorded": Step(
        "recorded",
        "One rename has put the record in place. It says which staged lines go where, and that "
        "batch 2 is done. From now on the batch is in.",
        "The sink carried out the record that it found. Then Spark ran the batch again, and the "
        "sink recognised it.",
    ),
    "half_applied": Step(
        "half applied",
        "The lines of one task are in the file that readers see. Those of the other are not yet.",
        "The sink carried out the rest of the record. Then Spark ran the batch again, and the sink "
        "recognised it.",
    ),
    "applied": Step(
        "applied",
        "Readers see all lines, and the staged files are gone. Spark does not know that yet.",
        "Spark ran the batch again. The sink recognised it, and wrote nothing.",
    ),
    "committed": Step(
        "committed",
        "Spark has noted that the batch is done: commits/2.",
        "There was nothing to repeat.",
    ),
}


class CrashExplainer(Explainer):
    _esm = HERE / "crash.js"


def crash_explainer() -> CrashExplainer:
    """The explainer; it steps through `STEPS`."""
    runs = stored(FILE)
    texts = [step._asdict() for step in STEPS.values()]
    data = {"steps": [text | run for text, run in zip(texts, runs, strict=True)], "lines": ALL}
    return CrashExplainer("The crash, to play with", data, still(runs))


# ---- Recording -----------------------------------------------------------------------------------


def grid(spark: SparkSession, folder: Path, port: int) -> Iterator[dict[str, Any]]:
    """All runs, by real queries that work in `folder`, on `port` and the next one."""
    return (run(spark, folder / point, port, point) for point in STEPS)


def run(spark: SparkSession, folder: Path, port: int, point: str) -> dict[str, Any]:
    """What is on disk when a driver stands at `point`, when it was killed, and after a restart."""
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
    _restart(spark, folder, port)
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
    """Two tasks and a thread go on for a moment after the first of them has arrived."""
    if point == "committed":
        return _is_done(folder, 2)
    if point != "logged" and not (folder / "arrived").exists():
        return False
    sink = _published(folder / "out")
    if point in ("staging", "staged", "recorded"):
        return sum(name.startswith("staged") for name in sink) == len(BATCH)
    return point != "half_applied" or len(sink["data.0.csv"]) > len(EARLIER)


def _restart(spark: SparkSession, folder: Path, port: int) -> None:
    query = network_to_log.network_to_log(spark, str(folder), port, PORTS)
    query.processAllAvailable()
    query.stop()


def _wait_for_silence(folder: Path) -> None:
    """The Python that listens outlives its query for a moment."""
    wait_until(lambda: not _listens(folder), SECONDS, "the end of the listener")


def _listens(folder: Path) -> bool:
    return (folder / "network").exists() and network_status(folder / "network").listening


def _is_done(folder: Path, batch: int) -> bool:
    return (folder / "checkpoint" / "commits" / str(batch)).exists()


# ---- What is on disk -----------------------------------------------------------------------------


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


# ---- The still image -----------------------------------------------------------------------------


def still(runs: list[dict[str, Any]]) -> Figure:
    """For each step: how many lines were where when the query was killed, and after the restart."""
    figure, axes = chart("killed when the batch was …", "lines", height=3)
    counts = {
        "in the log": (GRAY, [_count(run["killed"]["log"], "port") for run in runs]),
        "staged": (ORANGE, [_count(run["killed"]["sink"], "staged") for run in runs]),
        "seen by readers": (BLUE, [_count(run["killed"]["sink"], "data") for run in runs]),
        "after the restart": (GREEN, [_count(run["restarted"]["sink"], "data") for run in runs]),
    }
    for place, (name, (color, lines)) in enumerate(counts.items()):
        at = [step + (place - 1.5) * 0.2 for step in range(len(runs))]
        _ = axes.bar(at, lines, width=0.18, color=color, label=name)
    _ = axes.set_xticks(range(len(runs)), [step.name for step in STEPS.values()])
    _ = figure.legend(loc="outside upper right", ncols=4)
    return figure


def _count(files: Files, kind: str) -> int:
    return sum(len(lines) for name, lines in files.items() if name.startswith(kind))
