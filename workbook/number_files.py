"""The correct parts of notebook 11's five broken connectors; their mistakes are in the notebook.

The sources read numbers from files in a folder, one number per line; the sinks write such files.
Spark's Python processes import this module, so it imports no plots: Matplotlib would take each of
them a second.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType


def source_of(part: Any, name: str = "", schema: str = "value LONG") -> type[DataSource]:
    """Return a data source with this reader or writer, which gets the option `path`.

    `name` is that of the class in lower case, unless you pass one.
    """

    class Source(DataSource):
        @classmethod
        def name(cls) -> str:
            return str(name or part.__name__.lower())

        def schema(self) -> str:
            return schema

        def reader(self, schema: StructType, overwrite: bool = False) -> Any:
            return part(self.options["path"])

        streamReader = writer = streamWriter = reader

    return Source


sink_of = source_of


# ---- Sources -------------------------------------------------------------------------------------


@dataclass
class Slice(InputPartition):
    """The numbers from `start` up to, but not including, `end`."""

    start: int
    end: int


class NumberReader(DataSourceStreamReader):
    """The offset is how many numbers there are; `partitions` and `read` are yours."""

    def __init__(self, path: str) -> None:
        self.path = path

    def initialOffset(self) -> dict[str, int]:
        return {"next": 0}

    def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:
        return {"next": len(self.numbers())}

    def numbers(self) -> list[int]:
        """Return all numbers in the folder, in the order of the files' names."""
        files = sorted(Path(self.path).glob("*.txt"))
        return [int(line) for file in files for line in file.read_text().split()]

    @classmethod
    def source(cls) -> type[DataSource]:
        return source_of(cls)


class Suspect(NumberReader):
    """Has a mistake that learners find from a report alone: don't show them this code."""

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[Slice]:
        return [Slice(start["next"], end["next"])]

    def read(self, part: Any) -> Iterator[tuple[int]]:
        return ((number,) for number in self.numbers()[part.start :])


# ---- Sinks ---------------------------------------------------------------------------------------


@dataclass
class Values(WriterCommitMessage):
    """A task's message to the commit: the query's id, and its rows."""

    query: str
    values: list[str]


class NumberWriter(DataSourceStreamWriter):
    """Writes text files in a folder; `write` is yours, and `commit` too if you need one."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)

    @classmethod
    def sink(cls) -> type[DataSource]:
        return sink_of(cls)
