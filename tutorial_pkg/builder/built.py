"""What Spark sees of a built format: a name, checked options, and a source's schema."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from tutorial_pkg.builder.functions import Functions
from tutorial_pkg.core.options import Options, OptionValues

PlainSchema = str | StructType
Schema = PlainSchema | Callable[[OptionValues], PlainSchema]


@dataclass(frozen=True)
class Parts:
    """What a builder was given."""

    functions: Functions
    options: Options


@dataclass(frozen=True)
class SourceParts(Parts):
    schema: Schema


class Built(DataSource):
    """The base of all classes that builders make."""

    parts: ClassVar[Parts]

    @classmethod
    def name(cls) -> str:
        return cls.parts.functions.format

    def values(self) -> OptionValues:
        """Return the options of the query. Raises `ValueError` for a wrong one."""
        return self.parts.options.parse(self.options)


class BuiltSource(Built):
    """The base of those that are sources."""

    parts: ClassVar[SourceParts]
    reads_log = False  # so the conformance kit knows when only a running query adds rows

    def schema(self) -> PlainSchema:
        options, schema = self.values(), self.parts.schema
        return schema(options) if callable(schema) else schema


def data_source(base: type[Built], doc: str, parts: Parts, **attributes: Any) -> type[DataSource]:
    """Make a class for a format. It is pickled whole, so it works in any process."""
    words = "".join(part.capitalize() for part in parts.functions.format.split("_"))
    return type(f"{words}DataSource", (base,), {"__doc__": doc, "parts": parts, **attributes})


def documented(text: str, parts: SourceParts) -> str:
    """Add the options and the schema to what a format's documentation says."""
    return f"{text}\nOptions:\n{parts.options.table()}\n\nSchema: {schema_text(parts.schema)}\n"


def schema_text(schema: Schema) -> str:
    """Describe the schema; `toDDL` would need a session."""
    if callable(schema):
        return "as the options say"
    return schema if isinstance(schema, str) else schema.simpleString()
