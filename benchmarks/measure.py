"""What the benchmarks share: runs in turns, medians and ratios, memory, and who else was busy.

A benchmark makes a `Result` of `Series`; `finish` prints it, and writes it as JSON for `run.py`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TypeVar

import psutil
import pyarrow
import pyspark

from tutorial_pkg.session.java import find_java

ROUNDS = 3  # of a part in one pass; `run.py` makes two
SAMPLE_SECONDS = 0.25
PROBE_BYTES = 64 * 2**20
PROBES = 9
MIB = 2**20

Found = TypeVar("Found")


@dataclass(frozen=True)
class Series:
    """The counted runs of one contestant, in seconds for `lines` each.

    Contestants of one `group` ran in turns; `base` is the one among them to compare with.
    """

    group: str
    name: str
    lines: int
    seconds: list[float]
    base: str | None = None

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def rate(self) -> float:
        """Lines per second."""
        return self.lines / self.median


@dataclass
class Result:
    """What a benchmark found; `memory` is the peak in MiB by phase and kind of process.

    `others` is the share of the machine's CPU time that other programs took meanwhile; `probes`
    are the seconds of the same piece of work before and after; `figures` is what is no series.
    `date` and `machine` say when and where.
    """

    title: str
    series: list[Series]
    memory: dict[str, dict[str, float]] = field(default_factory=dict)
    others: float = 0.0
    probes: list[float] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    figures: dict[str, float] = field(default_factory=dict)
    date: str = ""
    machine: str = ""

    @classmethod
    def from_json(cls, path: Path) -> Result:
        read = json.loads(path.read_text())
        return cls(**{**read, "series": [Series(**each) for each in read["series"]]})

    def joined(self, later: Result) -> Result:
        """Both passes of the same benchmark as one: all runs, the highest peaks, later notes."""
        pairs = zip(self.series, later.series, strict=True)
        series = [replace(one, seconds=one.seconds + other.seconds) for one, other in pairs]
        memory = {  # | of two counters takes the larger one
            phase: dict(Counter(peaks) | Counter(later.memory[phase]))
            for phase, peaks in self.memory.items()
        }
        others = max(self.others, later.others)
        probes = self.probes + later.probes
        return replace(later, series=series, memory=memory, others=others, probes=probes)

    def find(self, group: str, name: str) -> Series:
        return next(s for s in self.series if (s.group, s.name) == (group, name))

    def ratio(self, series: Series) -> float | None:
        """How many times as fast as its base: the median over the pairs of neighbouring runs."""
        if series.base is None:
            return None
        base = self.find(series.group, series.base)
        pairs = zip(base.seconds, series.seconds, strict=False)
        return statistics.median(b / s for b, s in pairs) * series.lines / base.lines


def in_turns(
    contestants: Mapping[str, Callable[[], Found]],
    rounds: int,
    warm_up: int = 1,
    pause: float = 0.0,
) -> dict[str, list[Found]]:
    """What each contestant's counted runs found: A B A B, so that a busy moment meets them all.

    A `pause` (seconds) before each run lets the one before tidy up what it used.
    """
    found: dict[str, list[Found]] = {name: [] for name in contestants}
    for number in range(warm_up + rounds):
        for name, run in contestants.items():
            time.sleep(pause)
            result = run()
            if number >= warm_up:
                found[name].append(result)
    return found


def mean_over(at_least: float, run: Callable[[], float]) -> float:
    """`run`, repeated until it has taken so many seconds; in their mean, chance weighs less."""
    seconds = [run()]
    while sum(seconds) < at_least:
        seconds.append(run())
    return statistics.mean(seconds)


def series_of(
    group: str, lines: int, seconds: Mapping[str, list[float]], base: str | None = None
) -> list[Series]:
    return [
        Series(group, name, lines, runs, None if name == base else base)
        for name, runs in seconds.items()
    ]


def timed(action: Callable[[], object]) -> float:
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def probe() -> float:
    """Seconds of a fixed piece of work: no program sees a neighbour on the same host, this does."""
    data = b"x" * PROBE_BYTES
    return statistics.median(timed(lambda: zlib.crc32(data)) for _ in range(PROBES))


class Watch:
    """Samples the memory of this program, its JVM and its workers, and the CPU time of others.

    A context manager. `phase` names what is being measured from now on. `server` is a process that
    takes part without being a child of this one: its CPU time is not that of others.
    """

    def __init__(self, phase: str, server: int | None = None) -> None:
        self.phase, self._server = phase, server
        self.memory: dict[str, dict[str, float]] = {}
        self.probes: list[float] = []
        self._used: dict[int, float] = {}
        self._ended = threading.Event()
        self._sampler = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Watch:
        self.probes.append(probe())
        self._sample()
        self._started, self._own = _machine_seconds(), sum(self._used.values())
        self._sampler.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._sampler.join()
        self.probes.append(probe())
        self._sample()

    def others(self) -> float:
        """The share of all CPU time that went to programs outside of this one, 0..1."""
        all_time, busy = (
            now - before for now, before in zip(_machine_seconds(), self._started, strict=True)
        )
        own = sum(self._used.values()) - self._own
        return max(0.0, busy - own) / all_time if all_time else 0.0

    def _run(self) -> None:
        while not self._ended.wait(SAMPLE_SECONDS):
            self._sample()

    def _sample(self) -> None:
        peaks = self.memory.setdefault(self.phase, {})
        now: dict[str, float] = {}
        driver = psutil.Process()
        for process in [driver, *driver.children(recursive=True)]:
            try:
                self._used[process.pid] = sum(process.cpu_times()[:2])
                kind = "driver" if process.pid == driver.pid else _kind(process)
                now[kind] = now.get(kind, 0.0) + _memory(process)
            except psutil.NoSuchProcess:
                continue  # it ended meanwhile
        for kind, size in now.items():
            peaks[kind] = max(size, peaks.get(kind, 0.0))
        self._sample_server()

    def _sample_server(self) -> None:
        with suppress(psutil.NoSuchProcess):
            server = psutil.Process(self._server) if self._server else None
            for process in [server, *server.children(recursive=True)] if server else ():
                with suppress(psutil.NoSuchProcess):
                    self._used[process.pid] = sum(process.cpu_times()[:2])


def _machine_seconds() -> tuple[float, float]:
    """CPU seconds of all cores since the machine's start: all, and those that were not idle."""
    times = psutil.cpu_times()
    total = sum(times) - getattr(times, "guest", 0) - getattr(times, "guest_nice", 0)
    return total, total - times.idle - getattr(times, "iowait", 0)


def _kind(process: psutil.Process) -> str:
    if "java" in process.name():
        return "JVM"
    return "sender" if "spawn_main" in " ".join(process.cmdline()) else "Python workers"


def _memory(process: psutil.Process) -> float:
    """MiB; what workers share with the process that they were forked from counts once."""
    memory = process.memory_full_info()
    return getattr(memory, "pss", memory.uss) / MIB


def parse(
    doc: str, argv: Iterable[str] | None = None, *, lines: int = 3_000_000, rounds: int = ROUNDS
) -> argparse.Namespace:
    """The options that all benchmarks have; `conf` is a dictionary of Spark settings."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--lines", type=int, default=lines)
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--conf", nargs="*", default=[], metavar="KEY=VALUE")
    parser.add_argument("--json", type=Path, help="write the result there, too")
    given = parser.parse_args(argv)
    given.conf = dict(pair.split("=", 1) for pair in given.conf)
    return given


def finish(given: argparse.Namespace, result: Result, watch: Watch) -> None:
    """Print the result, and write it where `--json` says."""
    result.memory, result.others, result.probes = watch.memory, watch.others(), watch.probes
    result.date, result.machine = time.strftime("%Y-%m-%d"), machine()
    print("\n".join([*table(result), *result.notes]))
    if given.json:
        given.json.write_text(json.dumps(asdict(result), indent=1) + "\n")


def machine() -> str:
    """This machine, and the versions that were measured."""
    memory = psutil.virtual_memory().total / 2**30
    return (
        f"{os.cpu_count()} cores, {_processor()}, {memory:.0f} GiB, {platform.system()}; "
        f"Python {platform.python_version()}, PySpark {pyspark.__version__}, "
        f"PyArrow {pyarrow.__version__}, Java {find_java().release}"
    )


def _processor() -> str:
    """The processor's name, as far as the system tells."""
    information = Path("/proc/cpuinfo")
    if information.exists():
        names = [x for x in information.read_text().splitlines() if x.startswith("model name")]
        return names[0].partition(": ")[2] if names else platform.machine()
    done = subprocess.run(
        ["sysctl", "-n", "machdep.cpu.brand_string"], capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or platform.machine()


def table(result: Result) -> list[str]:
    """The series as lines of a Markdown table; no lines where there are none."""
    if not result.series:
        return []
    rows = [
        "| | lines | median s | least – most | million lines/s | ratio |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    group = None
    for series in result.series:
        if series.group != group:
            group = series.group
            rows.append(f"| **{group}** | | | | | |")
        rows.append(_row(series, result.ratio(series)))
    return rows


def _row(series: Series, ratio: float | None) -> str:
    spread = f"{min(series.seconds):.3f} – {max(series.seconds):.3f}"
    rate = f"{series.rate / 1e6:.2f}" if series.lines > 1 else ""
    compared = "" if ratio is None else f"{ratio:.2f} × {series.base}"
    lines = f"{series.lines:,}" if series.lines > 1 else ""
    return f"| {series.name} | {lines} | {series.median:.3f} | {spread} | {rate} | {compared} |"
