"""What Spark sees of a built format: a name, checked options, and a source's schema."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from tutorial_pkg.builder.functions import Functions
from tutorial_pkg.core.options import Options, OptionValues
from tutorial_pkg.core.spark_versions import warn_of_limits

PlainSchema = str | StructType
Schema = PlainSchema | Callable[[OptionValues], PlainSchema]


@dataclass(frozen=True)
class Parts:
    """What a builder was given."""

    functions: Functions
    options: Options


@dataclass(frozen=True)
class SourceParts(Parts):
    """The same, of a source."""

    schema: Schema


class Built(DataSource):
    """The base of all classes that builders make."""

    parts: ClassVar[Parts]

    @classmethod
    def name(cls) -> str:
        return cls.parts.functions.format

    def values(self) -> OptionValues:
        """The options of the query. Raises `ValueError` for a wrong one."""
        return self.parts.options.parse(self.options)


class BuiltSource(Built):
    """The base of those that are sources."""

    parts: ClassVar[SourceParts]
    reads_log = False  # so the conformance kit knows when only a running query adds rows

    def schema(self) -> PlainSchema:
        options, schema = self.values(), self.parts.schema  # the time to say what is wrong
        # `spark.read` of a cursor needs no log, and names none.
        warn_of_limits(self.name(), options, log=self.reads_log and "path" in self.options)
        return schema(options) if callable(schema) else schema


def data_source(base: type[Built], doc: str, parts: Parts) -> type[DataSource]:
    """A class of its own for each format: it is pickled whole, so it works in any process."""
    words = "".join(part.capitalize() for part in parts.functions.format.split("_"))
    attributes: dict[str, Any] = {"__doc__": doc, "parts": parts}
    return type(f"{words}DataSource", (base,), attributes)


def schema_text(schema: Schema) -> str:
    """The schema for the documentation; `toDDL` would need a session."""
    if callable(schema):
        return "as the options say"
    return schema if isinstance(schema, str) else schema.simpleString()
