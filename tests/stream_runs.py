"""Runs of a built stream source without Spark: the reader is called as Spark would call it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import LongType, StructType

from spark_connector_tests.query_process import wait_until
from tutorial_pkg.core.spark_versions import ReadAllAvailable

NUMBER = StructType().add("number", LongType())
ALL = ReadAllAvailable()


class Run:
    """One run of a query; `offset` is the end of what `rows` has read."""

    def __init__(
        self,
        source: type[DataSource],
        path: Path | str,
        schema: StructType,
        options: dict[str, str],
    ) -> None:
        self.reader: Any = source({"path": str(path), **options}).streamReader(schema)
        self.offset = self.reader.initialOffset()

    def latest(self) -> dict[str, Any]:
        """Start the instances at the first call; raise the error that ended one."""
        latest: dict[str, Any] = self.reader.latestOffset(self.offset, ALL)
        return latest

    def rows(self) -> list[Any]:
        """Return the new values of the first column, in the order of instances."""
        start, end = self.offset, self.latest()
        values = self.read(start, end)
        self.offset = end
        return values

    def read(self, start: dict[str, Any], end: dict[str, Any]) -> list[Any]:
        parts = self.reader.partitions(start, end)
        batches = [batch for part in parts for batch in self.reader.read(part)]
        return [value for batch in batches for value in batch.column(0).to_pylist()]

    def rows_until(self, enough: Callable[[list[Any]], bool]) -> list[Any]:
        found: list[Any] = []

        def have() -> bool:
            found.extend(self.rows())
            return enough(found)

        wait_until(have, 60, "enough rows")
        return found

    def failure(self) -> str:
        """Return the error that ends the query."""
        errors: list[BaseException] = []

        def failed() -> bool:
            try:
                self.latest()
            except BaseException as error:
                errors.append(error)
            return bool(errors)

        wait_until(failed, 60, "a failure")
        return f"{type(errors[0]).__name__}: {errors[0]}"


@contextmanager
def running(
    source: type[DataSource],
    log: Path,
    offset: dict[str, Any] | None = None,
    schema: StructType = NUMBER,
    **options: object,
) -> Iterator[Run]:
    """Resume a run at `offset`, as from a checkpoint."""
    run = Run(source, log, schema, {name: str(value) for name, value in options.items()})
    run.offset = offset or run.offset
    try:
        yield run
    finally:
        run.reader.stop()
