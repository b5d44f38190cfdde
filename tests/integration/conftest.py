"""What several tests on real queries share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tutorial_pkg import QueryMetrics


@pytest.fixture
def metrics(spark: SparkSession) -> Iterator[QueryMetrics]:
    """Listens to all queries of the session while a test runs."""
    listener = QueryMetrics()
    spark.streams.addListener(listener)
    yield listener
    spark.streams.removeListener(listener)
