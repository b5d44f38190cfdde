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
    kinds = {name: [kind.simpleString() for kind in accepted] for name, accepted in taken.items()}
    got = [(field.name, field.dataType.simpleString()) for field in schema]
    required = {needed, place} if given is None else {needed}
    fit = all(kind in kinds.get(name, ()) for name, kind in got)
    if not fit or not required <= set(schema.names) or len(dict(got)) < len(got):
        writes = ", ".join(f"`{name}` {' or '.join(accepted)}" for name, accepted in kinds.items())
        raise ValueError(
            f"format `{format_name}` writes the columns {writes}; required are `{needed}` and, "
            f"without the option `{place}`, `{place}`; got "
            f"{', '.join(f'`{name}` {kind}' for name, kind in got)}: choose and cast with "
            "`selectExpr`"
        )


def places(batch: pa.RecordBatch, place: str, given: str | None) -> Iterable[str]:
    """Return the target of each row: the option, or the column. Raises `ValueError` for a null."""
    if given is not None:
        return repeat(given, batch.num_rows)
    column = batch.column(place)
    if column.null_count:
        raise ValueError(f"column `{place}` must not be null without the option `{place}`")
    return list(column.to_pylist())
