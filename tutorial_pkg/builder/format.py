"""`Format`: several built sources and sinks under one name."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType


class Format(DataSource):
    """One name for several sources and sinks; the query's options choose.

        class Orders(Format):
            format = "orders"
            install = "pip install orders-client"

            def source(self):
                from my.orders import changes, table

                return changes if self.options.get("mode") == "changes" else table

    `source` and `sink` return any `DataSource` class. `spark.read` and `spark.readStream` use the
    same source. Import in them what needs another package: the error for a missing one quotes
    `install`.
    """

    format: ClassVar[str]
    install: ClassVar[str] = ""

    @classmethod
    def name(cls) -> str:
        return cls.format

    def source(self) -> type[DataSource]:
        """Return the source of this query. By default there is none."""
        return DataSource  # its methods raise an error that names the missing one

    def sink(self) -> type[DataSource]:
        """Return the sink of this query. By default there is none."""
        return DataSource

    def schema(self) -> StructType | str:
        return self._made(self.source).schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        return self._made(self.source).reader(schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return self._made(self.source).streamReader(schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        return self._made(self.sink).writer(schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        return self._made(self.sink).streamWriter(schema, overwrite)

    def _made(self, choose: Callable[[], type[DataSource]]) -> DataSource:
        try:
            return choose()(self.options)
        except ModuleNotFoundError as error:
            package = str(error.name).partition(".")[0]
            raise ImportError(
                f"format `{self.name()}` needs the package {package}: {self.install}"
            ) from None
