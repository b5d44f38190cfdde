"""The model of `network_lines`: costs, measured each by itself, and what they predict together.

`bench_scaling.py` measures both; `run.py` has the tables and the plot of `docs/scaling.md` made
anew here. The page says what the terms mean.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from measure import Result

PAGE = Path(__file__).parents[1] / "docs" / "scaling.md"
COSTS, POINTS = "costs", "points"
SENDING, PYTHON, JVM = "CPU: sender and receiver", "CPU: Python", "CPU: JVM"
RECEIVING = {1: "receiving with one port", 2: "receiving with two ports"}
READING = "reading with one task at a time"
BATCH, TASKS = "a batch of one line", "a batch of one line in each of 16 tasks"
PLANNING = "CPU: a batch of one line"
SHORT, SHORT_LINES = "a burst of 10,000 lines", 10_000
MANY = 16  # tasks
LINE_BYTES = 77
ON_WORKERS = "on a worker: "  # before the costs there: other JVMs, and TCP for Unix sockets
CORES = 2  # that are measured
MANY_CORES = 8  # that are not


@dataclass(frozen=True)
class Work:
    """Lines of a log that are read in batches of `batch`; or of a burst, over so many `ports`."""

    name: str
    lines: int
    batch: int = 0
    slots: int = CORES
    ports: int = 0
    workers: bool = False


@dataclass(frozen=True)
class Costs:
    """In seconds; a line's but for the last three.

    `sending` and `reading` are CPU time: of sender and receiver, of Python and JVM. `ports` is the
    time that so many ports need by themselves, `task` a task. `batch` and `short` are what a batch
    and a burst take that have few lines, `planning` is such a batch's CPU time.
    """

    sending: float
    reading: float
    ports: dict[int, float]
    task: float
    batch: float
    planning: float
    short: float

    @classmethod
    def of(cls, result: Result, where: str = "") -> Costs:
        def line(name: str) -> float:
            found = result.find(COSTS, name)
            return found.median / found.lines

        batch = result.find(COSTS, where + BATCH).median
        return cls(
            sending=line(SENDING),
            reading=line(where + PYTHON) + line(where + JVM),
            ports={number: line(name) for number, name in RECEIVING.items()},
            task=line(where + READING) - batch / result.find(COSTS, where + READING).lines,
            batch=batch,
            planning=result.find(COSTS, where + PLANNING).median,
            short=result.find(COSTS, SHORT).median,
        )


def seconds(costs: Costs, work: Work) -> float:
    """How long `work` takes."""
    read = max(costs.reading / CORES, costs.task / work.slots)
    if not work.ports:
        return work.lines / work.batch * costs.batch + work.lines * read
    both = max((costs.sending + costs.reading) / CORES, costs.task / work.slots)
    return seconds_of_burst(costs, work, read, both)


def seconds_of_burst(costs: Costs, work: Work, read: float, both: float) -> float:
    """It begins as a short one; what came meanwhile is a chain of batches, each of which reads what
    came during the one before.

    While a batch is planned, lines come as fast as the ports take them, and sender and receiver
    need a core; while it reads, as many come as are read, and a line takes `both` instead of
    `read`.
    """
    port, busy = costs.ports[work.ports], max(costs.batch, costs.planning / (CORES - 1))
    passed, done = costs.short + busy - costs.batch, SHORT_LINES
    came = min(work.lines, done + passed / port)
    while done < work.lines:
        waiting, left = came - done, work.lines - came
        done = came
        came += min(left, busy / port + waiting)
        passed += busy + waiting * both if left else costs.batch + waiting * read
    return passed


def points(lines: int) -> list[Work]:
    """What is measured and predicted; `lines` in a large batch, or in a burst.

    No burst of some ten thousand lines: they come so fast that chance decides whether the first
    batch has all of them.
    """
    small, medium, large = lines // 100, lines // 10, lines * 3
    one, two = "read, one task at a time", "read, two tasks"
    return [
        Work(one, small, small, slots=1),
        *(Work(two, batch, batch) for batch in (small, medium, lines)),
        *(Work("burst, one port", size, ports=1) for size in (medium, lines, large)),
        Work("burst, two ports", lines, ports=2),
        Work("read, two workers, one core each", lines, lines, workers=True),
        Work("read, one worker, two cores", lines, lines, workers=True),
    ]


# ---- The page ----------------------------------------------------------------------------------


def write_scaling(result: Result, folder: Path) -> None:
    """Write the page into `folder`, with what was found behind its markers, and the plot."""
    text = PAGE.read_text()
    for marker, table in (
        ("costs", costs_table(result)),
        ("points", points_table(result)),
        ("limits", limits_table(result)),
    ):
        before, found, rest = text.partition(f"<!-- {marker} -->\n")
        text = before + found + "\n".join(table) + rest[rest.index("\n\n") :]
    (folder / PAGE.name).write_text(text)
    (folder / "images").mkdir(exist_ok=True)
    draw(result, folder / "images" / "scaling.png")


def costs_table(result: Result) -> list[str]:
    rows = [
        *((name, 1e9, "ns") for name in (SENDING, PYTHON, JVM, *RECEIVING.values(), READING)),
        *((name, 1e3, "ms") for name in (BATCH, PLANNING, TASKS, SHORT)),
    ]
    known = {each.name: each for each in result.series if each.group == COSTS}

    def cell(name: str, unit: float, shown: str) -> str:
        found = known.get(name)
        return f"{found.median / found.lines * unit:.0f} {shown}" if found else ""

    return [
        f"| {result.date}; others took {result.others:.0%} of the CPU | here | on a worker |",
        "|---|--:|--:|",
        *(f"| {row[0]} | {cell(*row)} | {cell(ON_WORKERS + row[0], *row[1:])} |" for row in rows),
    ]


def compared(result: Result) -> Iterator[tuple[Work, float, float]]:
    """Each point, its measured seconds, and the predicted ones."""
    for work in points(lines_of(result)):
        costs = Costs.of(result, ON_WORKERS if work.workers else "")
        measured = next(
            each.median
            for each in result.series
            if (each.group, each.name, each.lines) == (POINTS, work.name, work.lines)
        )
        yield work, measured, seconds(costs, work)


def lines_of(result: Result) -> int:
    return result.find(COSTS, READING).lines


def points_table(result: Result) -> list[str]:
    return [
        "| | lines | measured s | predicted s | ratio |",
        "|---|--:|--:|--:|--:|",
        *(
            f"| {work.name} | {work.lines:,} | {measured:.3f} | {predicted:.3f} "
            f"| {predicted / measured:.2f} |"
            for work, measured, predicted in compared(result)
        ),
    ]


def limits_table(result: Result) -> list[str]:
    costs = Costs.of(result)
    found = sorted((work.lines, work.name, measured) for work, measured, _ in compared(result))
    largest = {name: size / measured for size, name, measured in found}  # the last one counts
    line = max((costs.sending + costs.reading) / MANY_CORES, costs.task / MANY_CORES)
    rows = [
        ("a receiver with one port, no query", 1 / costs.ports[1], ""),
        ("a receiver with two ports, no query", 1 / costs.ports[2], ""),
        (f"reading with two tasks on {CORES} cores", largest["read, two tasks"], ""),
        (f"sender, receiver and query on {CORES} cores", largest["burst, one port"], ""),
        (
            f"the same on {MANY_CORES} cores, without a batch's fixed costs",
            1 / max(line, costs.ports[1]),
            "*extrapolated*",
        ),
    ]
    return [
        "| | lines/s | MB/s | |",
        "|---|--:|--:|---|",
        *(
            f"| {name} | {rate:,.0f} | {rate * LINE_BYTES / 1e6:,.0f} | {remark} |"
            for name, rate, remark in rows
        ),
    ]


def draw(result: Result, picture: Path) -> None:
    """Curves are predicted, dots measured."""
    figure = Figure(figsize=(7, 3.6), layout="constrained")
    axes = figure.subplots()
    costs, sizes = Costs.of(result), np.logspace(4, 7, 50)
    found = list(compared(result))
    for name, color in (("read, two tasks", "tab:blue"), ("burst, one port", "tab:orange")):
        dots = [(work, measured) for work, measured, _ in found if work.name == name]
        like = dots[0][0]
        curve = [size / seconds(costs, sized(like, int(size))) / 1e6 for size in sizes]
        axes.semilogx(sizes, curve, color=color, label=name)
        rates = [work.lines / measured / 1e6 for work, measured in dots]
        axes.plot([work.lines for work, _ in dots], rates, "o", color=color)
    axes.set(xlabel="lines in a batch or a burst", ylabel="million lines per second")
    axes.set_title("Curves are predicted from costs, dots are measured")
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")
    figure.savefig(picture, dpi=110)


def sized(work: Work, lines: int) -> Work:
    return replace(work, lines=lines, batch=0 if work.ports else lines)
