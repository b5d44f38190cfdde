"""The columns that a sink accepts, checked before a query runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat

import pyarrow as pa
from pyspark.sql.types import DataType, StructType

Columns = Mapping[str, Sequence[DataType]]


def check_columns(
    format_name: str, schema: StructType, taken: Columns, needed: str, place: str, given: object
) -> None:
    """Raise `ValueError` unless the sink accepts rows of this schema.

    `taken` has the accepted types of each column. The column `needed` is required, and so is
    `place`, with the target of each row, unless the option of that name is `given`.
    """
    names, problem = schema.names, ""
    for field in schema:
        kinds = [kind.simpleString() for kind in taken.get(field.name, ())]
        kind = field.dataType.simpleString()
        if field.name not in taken:
            problem = f"got `{field.name}`"
        elif kind not in kinds:
            problem = f"`{field.name}` is {kind}, not {' or '.join(kinds)}"
        elif names.count(field.name) > 1:
            problem = f"`{field.name}` exists twice"
    if needed not in names:
        problem = problem or f"`{needed}` is missing"
    if problem:
        raise ValueError(
            f"format `{format_name}` writes the columns {', '.join(taken)}; {problem}: choose and "
            "cast with `selectExpr`"
        )
    if given is None and place not in names:
        raise ValueError(
            f"format `{format_name}`: set the option `{place}`, or add a column `{place}`"
        )


def places(batch: pa.RecordBatch, place: str, given: str | None) -> Iterable[str]:
    """Return the target of each row: the option, or the column. Raises `ValueError` for a null."""
    if given is not None:
        return repeat(given, batch.num_rows)
    column = batch.column(place)
    if column.null_count:
        raise ValueError(f"column `{place}` must not be null without the option `{place}`")
    return list(column.to_pylist())
