"""Windows and a join with `kill -9` at random: the results are those of plain Python."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_connector_tests.query_process import wait_until
from tests.faults.joins_driver import run_queries
from tests.faults.spare_driver import SECONDS, SpareDriver
from workbook.shop import SECOND, START, joined, orders, payments

DRIVER = Path(__file__).with_name("joins_driver.py")
BEGIN = int(START.timestamp())


KILLS = 8


@pytest.mark.soak  # in every run notebook 21 kills a query with state
def test_windows_and_a_join_are_exact_after_kills(spark: SparkSession, tmp_path: Path) -> None:
    """The last driver is the session of the tests: it comes to the end."""
    count = 500 + 500 * KILLS
    settled = count - 60  # what came after it, no watermark may have closed yet
    dice = random.Random(17)

    def found() -> dict[str, dict[int, Any]]:
        return results(tmp_path, settled)

    def rows() -> int:
        return sum(map(len, found().values()))

    with ExitStack() as cleanup:
        for number in range(KILLS):
            path = tmp_path / f"driver-{number}"
            driver = cleanup.enter_context(SpareDriver(DRIVER, path, tmp_path, count))
            driver.go()
            wanted = rows() + 100
            wait_until(lambda: while_it_runs(driver, rows) > wanted, SECONDS, "progress")  # noqa: B023
            time.sleep(dice.random())  # at random, in the middle of something
            driver.kill()
    run_queries(spark, tmp_path, count)
    due = {"windows": windows(count, settled), "joined": joined_until(settled, count)}
    wait_until(lambda: rows() == sum(map(len, due.values())), SECONDS, "the end of the orders")
    assert found() == due


def while_it_runs(driver: SpareDriver, ask: Callable[[], int]) -> int:
    assert driver.running, driver.output.read_text()[-3000:]
    return ask()


def results(folder: Path, settled: int) -> dict[str, dict[int, Any]]:
    """Of each query, by order or window. Raises `AssertionError` for a result that came twice."""
    found = {}
    for query, key in (("windows", "end"), ("joined", "id")):
        files = sorted((folder / query / "out").glob("*.json"))
        rows = [row for file in files for row in json.loads(file.read_text())]
        values = {row[key]: row["euros" if query == "windows" else "paid"] for row in rows}
        assert len(values) == len(rows), f"{query} gave out a result twice"
        last = BEGIN + settled if query == "windows" else settled - 1
        found[query] = {name: value for name, value in values.items() if name <= last}
    return found


def joined_until(settled: int, count: int) -> dict[int, int | None]:
    pairs = joined(orders(count), payments(count), within=10 * SECOND)
    return {one: at and int(at.timestamp()) for one, at in pairs if one < settled}


def windows(count: int, settled: int) -> dict[int, int]:
    found: dict[int, int] = {}
    for row in orders(count):
        end = (int(row.time.timestamp()) // 10 + 1) * 10
        found[end] = found.get(end, 0) + row.euros
    return {end: euros for end, euros in found.items() if end <= BEGIN + settled}
