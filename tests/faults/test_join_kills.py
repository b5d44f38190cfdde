"""Windows and a join with `kill -9` at random: the results are those of plain Python.

`TUTORIAL_PKG_KILLS=10` kills as often as issue 17 wants it.
"""

from __future__ import annotations

import json
import os
import random
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.faults.spare_driver import SECONDS, SpareDriver
from tutorial_pkg.processes.query_process import wait_until
from tutorial_pkg.workbook.orders import SECOND, START, joined, orders, payments

DRIVER = Path(__file__).with_name("joins_driver.py")
KILLS = int(os.environ.get("TUTORIAL_PKG_KILLS", "1"))
ORDERS = 500 + 500 * KILLS
SETTLED = ORDERS - 60  # what came after it, no watermark may have closed yet
BEGIN = int(START.timestamp())


def test_windows_and_a_join_are_exact_after_kills(tmp_path: Path) -> None:
    dice = random.Random(os.environ.get("TUTORIAL_PKG_SEED", "17"))
    with ExitStack() as cleanup:
        spare = start(tmp_path, 0, cleanup)
        for kill in range(KILLS):
            driver = spare
            driver.go()
            progress = sum(map(len, results(tmp_path).values()))
            wait_until(lambda: moved(tmp_path, progress, driver), SECONDS, "progress")  # noqa: B023
            # Not earlier: of two that start at once, a worker may miss the 10 s Spark gives it.
            spare = start(tmp_path, kill + 1, cleanup)
            time.sleep(dice.random())  # at random, in the middle of something
            driver.kill()
        spare.go()
        wait_until(lambda: is_settled(tmp_path, spare), SECONDS, "the end of the orders")
    found = results(tmp_path)
    assert found["windows"] == windows()
    expected = joined(orders(ORDERS), payments(ORDERS), within=10 * SECOND)
    as_seconds = {one: at and int(at.timestamp()) for one, at in expected if one < SETTLED}
    assert found["joined"] == as_seconds


def start(folder: Path, number: int, cleanup: ExitStack) -> SpareDriver:
    driver = SpareDriver(DRIVER, folder / f"driver-{number}", folder, ORDERS)
    return cleanup.enter_context(driver)


def moved(folder: Path, before: int, driver: SpareDriver) -> bool:
    assert driver.running, driver.output.read_text()[-3000:]
    return sum(map(len, results(folder).values())) > before + 100


def is_settled(folder: Path, driver: SpareDriver) -> bool:
    assert driver.running, driver.output.read_text()[-3000:]
    found = results(folder)
    return len(found["joined"]) == SETTLED and len(found["windows"]) == len(windows())


def results(folder: Path) -> dict[str, dict[int, Any]]:
    """Of each query, by order or window. Raises `AssertionError` for a result that came twice."""
    found = {}
    for query, key in (("windows", "end"), ("joined", "id")):
        files = sorted((folder / query / "out").glob("*.json"))
        rows = [row for file in files for row in json.loads(file.read_text())]
        values = {row[key]: row["euros" if query == "windows" else "paid"] for row in rows}
        assert len(values) == len(rows), f"{query} gave out a result twice"
        last = BEGIN + SETTLED if query == "windows" else SETTLED - 1
        found[query] = {name: value for name, value in values.items() if name <= last}
    return found


def windows() -> dict[int, int]:
    found: dict[int, int] = {}
    for row in orders(ORDERS):
        end = (int(row.time.timestamp()) // 10 + 1) * 10
        found[end] = found.get(end, 0) + row.euros
    return {end: euros for end, euros in found.items() if end <= BEGIN + SETTLED}
