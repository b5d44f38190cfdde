"""Other people's source, as who has nothing of ours but the kit describes it.

python -m spark_connector_tests others:fake --session others:session
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader
from pyspark.sql.types import StructType
from pyspark_datasources import FakeDataSource

from spark_connector_tests import StreamSource


def fake(folder: Path) -> StreamSource:
    """Invented people: its rows carry no number."""
    return StreamSource(FakeDataSource, number=None)


class Sevens(SimpleDataSourceStreamReader):
    """0, 1, 2 …, seven in each batch."""

    def initialOffset(self) -> dict[str, int]:
        return {"next": 0}

    def read(self, start: dict[str, int]) -> tuple[Iterator[tuple[int]], dict[str, int]]:
        end = {"next": start["next"] + 7}
        return self.readBetweenOffsets(start, end), end

    def readBetweenOffsets(
        self, start: dict[str, int], end: dict[str, int]
    ) -> Iterator[tuple[int]]:
        return iter([(number,) for number in range(start["next"], end["next"])])  # it is pickled


class CountingDataSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "counting"

    def schema(self) -> str:
        return "value LONG"

    def simpleStreamReader(self, schema: StructType) -> Sevens:
        return Sevens()


def counting(folder: Path) -> StreamSource:
    """By a name that only the platform's own sessions know, also those of killed drivers."""
    return StreamSource("counting")


def session() -> SparkSession:
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = builder.getOrCreate()
    spark.dataSource.register(CountingDataSource)
    return spark
