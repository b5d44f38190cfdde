"""A look into a source in Python: what its reader hands on, before Spark converts it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.datasource import CaseInsensitiveDict, DataSource
from pyspark.sql.datasource_internal import _streamReader
from pyspark.sql.types import DataType, StructType

from spark_connector_tests.errors import last_error
from spark_connector_tests.promise import Broken, failure
from spark_connector_tests.queries import SourceQuery


def check_rows(spark: SparkSession, query: SourceQuery, start: Any, end: Any) -> None:
    """Read what lies between two offsets, in tasks; raise `Broken` unless it fits the schema."""
    source = cast(type[DataSource], query.format)
    made = source(CaseInsensitiveDict(query.options))
    given: Any = query.schema or made.schema()
    schema = cast(StructType, DataType.fromDDL(given) if isinstance(given, str) else given)
    try:
        pieces = _pieces(spark, made, schema, start, end)
    except Exception as error:  # whatever the connector raises, here or in a task
        seen = last_error(error) if str(error) else repr(error)
        raise failure(f"a new reader could not read the last batch: {seen}", error) from error
    rows = [piece for piece in pieces if not isinstance(piece, pa.RecordBatch)]
    try:
        spark.createDataFrame(rows, schema)  # compares each value with its type
    except PySparkException as error:
        raise Broken(f"a row does not fit the schema: {error}") from error
    for batch in (piece for piece in pieces if isinstance(piece, pa.RecordBatch)):
        _check_nulls(batch, schema)


def _pieces(spark: SparkSession, made: DataSource, schema: StructType, *of: Any) -> list[Any]:
    """Planned by one reader and read by another one, as Spark does it."""
    planner = _streamReader(made, schema)  # a simple reader comes in Spark's wrapper
    try:
        planned = planner.partitions(*of)
    finally:
        planner.stop()
    parts = [cloudpickle.dumps((_streamReader(made, schema), part)) for part in planned]
    return spark.sparkContext.parallelize(parts, max(1, len(parts))).flatMap(_read).collect()


def _read(pickled: bytes) -> Iterator[Any]:
    reader, partition = cloudpickle.loads(pickled)
    for piece in reader.read(partition):
        yield piece if isinstance(piece, pa.RecordBatch) else tuple(piece)


def _check_nulls(batch: pa.RecordBatch, schema: StructType) -> None:
    for field, column in zip(schema.fields, batch.columns, strict=True):
        if column.null_count and not field.nullable:
            raise Broken(f"column `{field.name}` is NOT NULL, and has {column.null_count} nulls")
