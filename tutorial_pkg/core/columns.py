"""The columns that a sink takes, checked before a query runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql.types import DataType, StructType

Columns = Mapping[str, Sequence[DataType]]


def check_columns(format_name: str, schema: StructType, taken: Columns, needed: str) -> None:
    """Raise `ValueError` unless the sink takes rows of this schema.

    `taken` has the types that each column may have; `needed` is the one that must be there.
    """
    for field in schema:
        if field.name not in taken:
            raise ValueError(_text(format_name, taken, f"there is `{field.name}`"))
        kinds = [kind.simpleString() for kind in taken[field.name]]
        kind = field.dataType.simpleString()
        if kind not in kinds:
            what = f"`{field.name}` is {kind}, not {' or '.join(kinds)}"
            raise ValueError(_text(format_name, taken, what))
    if needed not in schema.names:
        raise ValueError(_text(format_name, taken, f"`{needed}` is missing"))


def _text(format_name: str, taken: Columns, what: str) -> str:
    return (
        f"format `{format_name}` writes the columns {', '.join(taken)}; {what}: choose and cast "
        "with `selectExpr`"
    )
