"""The columns that a sink takes, checked before a query runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat

import pyarrow as pa
from pyspark.sql.types import DataType, StructType

Columns = Mapping[str, Sequence[DataType]]


def check_columns(
    format_name: str, schema: StructType, taken: Columns, needed: str, place: str, given: object
) -> None:
    """Raise `ValueError` unless the sink takes rows of this schema.

    `taken` has the types that each column may have; `needed` is the one that must be there, and so
    must be `place`, which says where a row goes, unless the option of that name is `given`.
    """
    for field in schema:
        if field.name not in taken:
            raise ValueError(_text(format_name, taken, f"there is `{field.name}`"))
        kinds = [kind.simpleString() for kind in taken[field.name]]
        kind = field.dataType.simpleString()
        if kind not in kinds:
            what = f"`{field.name}` is {kind}, not {' or '.join(kinds)}"
            raise ValueError(_text(format_name, taken, what))
        if schema.names.count(field.name) > 1:
            raise ValueError(_text(format_name, taken, f"`{field.name}` is there twice"))
    if needed not in schema.names:
        raise ValueError(_text(format_name, taken, f"`{needed}` is missing"))
    if given is None and place not in schema.names:
        raise ValueError(
            f"format `{format_name}`: give the option `{place}`, or a column `{place}`"
        )


def places(batch: pa.RecordBatch, place: str, given: str | None) -> Iterable[str]:
    """Where each row goes: as the option says, or the column. Raises `ValueError` for a null."""
    if given is not None:
        return repeat(given, batch.num_rows)
    column = batch.column(place)
    if column.null_count:
        raise ValueError(f"column `{place}` must not be null where there is no option `{place}`")
    return list(column.to_pylist())


def _text(format_name: str, taken: Columns, what: str) -> str:
    return (
        f"format `{format_name}` writes the columns {', '.join(taken)}; {what}: choose and cast "
        "with `selectExpr`"
    )
