"""Each broken query of notebook 15 shows its symptom in the metrics, and no other one."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tutorial_pkg import QueryMetrics, QueryRecord
from tutorial_pkg.processes.query_process import wait_until
from tutorial_pkg.workbook.broken_queries import scene


def is_slow(query: QueryRecord) -> bool:
    """Almost all of a long batch is `addBatch`."""
    last = query.last
    return bool(
        last and last.seconds.get("addBatch", 0) > max(1, 0.8 * last.seconds["triggerExecution"])
    )


@pytest.mark.parametrize("number", [1, 2, 3])
def test_the_symptom_is_there(
    spark: SparkSession, tmp_path: Path, metrics: QueryMetrics, number: int
) -> None:
    broken, name = scene(number, spark, tmp_path), f"scene {number}"
    try:
        if number == 2:
            wait_until(lambda: metrics.query(name).late_rows_total > 0, 60, "late rows")
        else:
            wait_until(lambda: is_slow(metrics.query(name)), 60, "a slow batch")
            assert metrics.query(name).late_rows_total == 0
    finally:
        broken.stop()
