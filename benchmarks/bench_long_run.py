"""A query that runs for an hour: what of its processes and files grows?

    python benchmarks/bench_long_run.py [--minutes 60] [--rate 20000]

Lines come over the network at a steady rate; windows of ten seconds are counted, with state, and
written by `cpu_log`. Every ten seconds the memory, file descriptors and threads of each kind of
process are noted, and the files of log, checkpoint and output. Writes `long_run.png` and
`LONG_RUN.md` beside this file: of each figure the median after a warm-up of a sixth of the time,
and at the end. The query runs in a process of its own; the sender here.
"""

from __future__ import annotations

import argparse
import socket
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import psutil
from lines import LINE
from measure import MIB
from pyspark.sql import functions as F

from spark_connector_tests.query_process import QueryProcess, end_with_parent, wait_until
from tutorial_pkg import network_status, start_spark
from tutorial_pkg.core.places import work_dir
from workbook.senders import free_ports

HERE = Path(__file__).parent
EVERY = 10  # seconds between two samples
PIECES = 10  # a second's lines are sent in so many
KINDS = {
    "java": "JVM",
    "python_streaming_source_runner": "listener",
    "pyspark.daemon": "Python workers",
}
FOLDERS = ("log", "checkpoint", "out")
Sample = dict[str, float]


def run_query(folder: Path, port: int) -> None:
    end_with_parent()
    spark = start_spark("bench_long_run")
    lines = spark.readStream.format("network_lines").option("port", port)
    lines = lines.option("eventTime", "millis_prefix").load(str(folder / "log"))
    windows = lines.withWatermark("event_time", "10 seconds").groupBy(
        F.window("event_time", "10 seconds")
    )
    counts = windows.count().select(F.to_json(F.struct("window", "count")).alias("item"))
    writer = counts.writeStream.format("cpu_log").outputMode("append")
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    writer.start(str(folder / "out")).awaitTermination()


def send(port: int, rate: int, ended: threading.Event) -> None:
    """`rate` lines a second, with the present for their time."""
    rest = LINE % 0
    rest = rest[rest.index(b",") :]
    with socket.create_connection(("127.0.0.1", port)) as client:
        due = time.monotonic()
        while not ended.wait(max(0.0, due - time.monotonic())):
            client.sendall((b"%d%b" % (time.time() * 1000, rest)) * (rate // PIECES))
            due += 1 / PIECES


def samples(folder: Path, query: QueryProcess, seconds: float) -> Iterator[Sample]:
    started = time.monotonic()
    while (now := time.monotonic() - started) < seconds:
        if not query.running:
            sys.exit(f"the query has failed: see {query.output}")
        yield {"minute": now / 60, **of_processes(query.pid), **of_files(folder)}
        time.sleep(EVERY)


def of_processes(pid: int) -> Sample:
    found: Counter[str] = Counter()
    driver = psutil.Process(pid)
    for process in [driver, *driver.children(recursive=True)]:
        try:
            kind = "driver" if process.pid == pid else kind_of(process)
            memory = process.memory_full_info()
            found[f"{kind}: MiB"] += int(getattr(memory, "pss", memory.uss) / MIB)
            found[f"{kind}: file descriptors"] += process.num_fds()
            found[f"{kind}: threads"] += process.num_threads()
            found[f"{kind}: processes"] += 1
        except psutil.NoSuchProcess:
            continue  # it ended meanwhile
    return dict(found)


def kind_of(process: psutil.Process) -> str:
    words = " ".join([process.name(), *process.cmdline()])
    return next((kind for word, kind in KINDS.items() if word in words), "other")


def of_files(folder: Path) -> Sample:
    found: Sample = {}
    for name in FOLDERS:
        sizes = []
        for file in (folder / name).rglob("*"):
            try:
                sizes.append(file.stat().st_size if file.is_file() else 0)
            except FileNotFoundError:
                continue  # deleted meanwhile
        found |= {f"{name}: files": len(sizes), f"{name}: MiB": sum(sizes) / MIB}
    return found


def write_page(taken: list[Sample], rate: int, lines: int) -> None:
    minutes = taken[-1]["minute"]
    early = [s for s in taken if minutes / 6 < s["minute"] <= minutes / 3]
    late = [s for s in taken if s["minute"] > minutes * 5 / 6]
    rows = []
    for name in sorted({name for sample in taken for name in sample} - {"minute"}):
        then, now = (statistics.median(s.get(name, 0) for s in some) for some in (early, late))
        rows.append(f"| {name} | {then:,.1f} | {now:,.1f} | {now - then:+,.1f} |")
    page = [
        f"# {minutes:.0f} minutes at {rate:,} lines a second",
        "",
        "Written by `python benchmarks/bench_long_run.py`. Lines come over the network, windows of",
        "ten seconds are counted with state, and `cpu_log` writes the counts. Medians of the",
        f"second and the last sixth of the time. {lines:,} lines came. A process's memory has",
        "its part of what it shares. The JVM's heap may have 2 GiB, and takes its time to get",
        "there. Spark keeps 100",
        "batches of the checkpoint, and clears away older files of its state once a minute: while",
        "batches are shorter, there are more of them.",
        "",
        "![memory, file descriptors, threads and files over time](long_run.png)",
        "",
        "| | after the warm-up | at the end | difference |",
        "|---|--:|--:|--:|",
        *rows,
    ]
    (HERE / "LONG_RUN.md").write_text("\n".join([*page, ""]))


def draw(taken: list[Sample]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    panels = ("MiB", "file descriptors", "threads", "files")
    figure, all_axes = plt.subplots(2, 2, figsize=(10, 6), layout="constrained")
    series = defaultdict(list)
    for name in sorted({name for sample in taken for name in sample} - {"minute"}):
        kind, _, unit = name.partition(": ")
        if not (unit == "MiB" and kind in FOLDERS):
            series[unit].append((kind, [sample.get(name, 0) for sample in taken]))
    for axes, unit in zip(all_axes.flat, panels, strict=True):
        for kind, values in series[unit]:
            axes.plot([sample["minute"] for sample in taken], values, label=kind)
        axes.set(title=unit, ylim=(0, None), xlabel="minutes")
        axes.legend(fontsize="small", frameon=False)
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(HERE / "long_run.png", dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--rate", type=int, default=20_000)
    parser.add_argument("--query", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.query:
        return run_query(Path(given.query[0]), int(given.query[1]))
    port, ended = free_ports(1), threading.Event()
    with tempfile.TemporaryDirectory(dir=work_dir("bench")) as name:
        folder = Path(name)
        words = ("--query", folder, port)
        with QueryProcess(Path(__file__), *words, output=work_dir("bench") / "long.log") as query:
            wait_until(lambda: network_status(folder / "log").ports, 120, "the port")
            sender = threading.Thread(target=send, args=(port, given.rate, ended))
            sender.start()
            try:
                taken = list(samples(folder, query, given.minutes * 60))
            finally:
                ended.set()
                sender.join()
            lines = sum(each.lines for each in network_status(folder / "log").ports.values())
    write_page(taken, given.rate, lines)
    draw(taken)


if __name__ == "__main__":
    main()
