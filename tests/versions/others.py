"""Other people's source, as who has nothing of ours but the kit describes it.

python -m spark_connector_tests others:fake --session others:session
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession
from pyspark_datasources import FakeDataSource
from spark_connector_tests import StreamSource


def fake(folder: Path) -> StreamSource:
    """Invented people: its rows carry no number."""
    return StreamSource(FakeDataSource, number=None)


def session() -> SparkSession:
    return SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
