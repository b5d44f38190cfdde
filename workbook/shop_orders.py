"""Notebook 19's orders: what its queries have published, and a picture of it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from workbook.plots import BLUE, GRAY, GREEN, INK, ORANGE, chart, picture

COLORS = {"worker-1": BLUE, "worker-2": ORANGE, "worker-3": GREEN}
LINE = re.compile(r"^(?:(\d+),.*,)?(worker-\d+) (\w+) (\d+)$", re.M)
Event = tuple[float, str, str]  # epoch seconds, the worker, and what happened to it


class Order(NamedTuple):
    """A line of the output: who has read the order, and in a CPU log also when."""

    seconds: float
    worker: str
    shop: str
    number: int


def read_orders(folder: Path) -> list[Order]:
    """Return the orders in the published files: `data.*.csv` of a CPU log, or `*.txt`."""
    files = [*folder.glob("data.*.csv"), *folder.glob("*.txt")]
    found = [match for file in files for match in LINE.findall(file.read_text())]
    return [Order(int(ms or 0) / 1000, worker, shop, int(n)) for ms, worker, shop, n in found]


def count_orders(orders: Sequence[Order]) -> str:
    """Return how many orders are lost and duplicated; each shop's numbers begin with 0."""
    found = {(order.shop, order.number) for order in orders}
    last = dict(sorted(found))  # the highest number of each shop
    lost = sum(last.values()) + len(last) - len(found)
    return f"lost: {lost} | duplicated: {len(orders) - len(found)}"


def draw_orders(orders: Sequence[Order], events: Sequence[Event]) -> None:
    """Plot one shop's orders over time: workers 1 and 2 die, then worker 3 joins."""
    start = min(order.seconds for order in orders)
    north = [order for order in orders if order.shop == "north"]
    seconds = [order.seconds - start for order in north]
    new = next(order for order in north if order.worker == "worker-3")
    figure, axes = chart("seconds", "number of the order in shop north", height=3.4)
    colors = [COLORS[order.worker] for order in north]
    axes.scatter(seconds, [order.number for order in north], s=3, c=colors)
    for row, (at, worker, verb) in enumerate(events):
        axes.axvline(at - start, color=COLORS[worker])
        place = axes.get_xaxis_transform()
        axes.text(at - start, 0.35 - 0.1 * row, f" {worker} {verb}", color=INK, transform=place)
    pause = events[1][0] - start, new.seconds - start
    axes.axvspan(*pause, color=GRAY, alpha=0.2, lw=0)
    axes.text(pause[1], 0, "no orders ", color=INK, ha="right")
    axes.axhline(new.number - 0.5, color=INK, lw=1, ls="--")
    axes.text(seconds[0], new.number, "no number is missing here", color=INK, va="bottom")
    alt = "Bars are the orders of a batch from shop north, colored by worker. Workers 1 and 2 take "
    alt += "turns, then only worker 2 reads, then none. Worker 3 continues with the next number."
    picture(figure, alt)
