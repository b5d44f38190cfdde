"""Each broken query of notebook 15 shows its symptoms, however fast the machine is."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.request import urlopen

import pytest
from pyspark.sql import SparkSession

from spark_connector_tests.query_process import wait_until
from tutorial_pkg import QueryMetrics, QueryRecord
from workbook.broken_queries import ITEMS_PER_SECOND, scene

LATE, SLOW, UNEVEN = "late rows", "falls behind in `addBatch`", "one task has most of the work"


@pytest.mark.soak  # in every run, the alarms in the notebook tell these queries apart
@pytest.mark.parametrize(
    ("number", "arrives", "symptoms"),
    [(1, 100, {SLOW}), (2, 0, {LATE}), (3, ITEMS_PER_SECOND, {SLOW, UNEVEN})],
)
def test_the_symptoms_are_there(
    spark: SparkSession,
    tmp_path: Path,
    metrics: QueryMetrics,
    number: int,
    arrives: int,
    symptoms: set[str],
) -> None:
    broken, name = scene(number, spark, tmp_path), f"scene {number}"

    def seen() -> set[str]:
        query = metrics.query(name)
        found = {LATE} if query.late_rows_total else set()
        found |= {SLOW} if falls_behind(query, arrives) else set()
        return found | ({UNEVEN} if is_uneven(spark, query) else set())

    try:
        wait_until(lambda: seen() == symptoms, 120, f"the symptoms of {name}")
    finally:
        broken.stop()


def falls_behind(query: QueryRecord, arrives: int) -> bool:
    """A batch does fewer rows a second than arrive, and most of it is `addBatch`."""
    last = query.last
    return bool(
        last
        and 0 < last.done_per_second < arrives
        and last.seconds["addBatch"] > 0.5 * last.seconds["triggerExecution"]
    )


def is_uneven(spark: SparkSession, query: QueryRecord) -> bool:
    """The slowest task of the longest of the last stages took four times as long as the fastest."""
    if not query.last:
        return False
    context = spark.sparkContext
    api = f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}/stages"
    with urlopen(f"{api}?status=complete&withSummaries=true&quantiles=0,1") as answer:
        stages = json.load(answer)
    longest = max(stages[:4], key=lambda stage: stage["executorRunTime"])
    fastest, slowest = longest["taskMetricsDistributions"]["executorRunTime"]
    return slowest > 4 * fastest
