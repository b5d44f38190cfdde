"""The explainers show what real queries do: run again, they do the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from workbook.explainers import crash, watermark
from workbook.explainers.widget import stored

CRASHES = [pytest.param(run, id=run["point"]) for run in stored(crash.FILE)]


def test_a_row_far_ahead_closes_windows_and_another_one_is_dropped(
    spark: SparkSession, tmp_path: Path
) -> None:
    again = watermark.run(spark, tmp_path / "run", delay=10, second=48)
    assert again in stored(watermark.FILE)


@pytest.mark.soak
def test_every_choice_of_the_watermark_is_what_a_query_does(
    spark: SparkSession, tmp_path: Path
) -> None:
    assert list(watermark.grid(spark, tmp_path)) == stored(watermark.FILE)


@pytest.mark.soak
@pytest.mark.parametrize("recorded", CRASHES)
def test_a_crash_leaves_what_is_shown(
    spark: SparkSession,
    tmp_path: Path,
    free_ports: Callable[[int], int],
    recorded: dict[str, object],
) -> None:
    point = str(recorded["point"])
    assert crash.run(spark, tmp_path / point, free_ports(crash.PORTS), point) == recorded
