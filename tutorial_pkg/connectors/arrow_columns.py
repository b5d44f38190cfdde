"""Record batches of Arrow as Spark's columns: schemas, casts, rows grouped by value."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkTypeError
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    MapType,
    StructType,
    VariantType,
)

from tutorial_pkg.core.arrow_casts import cast_array, check_cast

# Types that Spark lacks, and Spark's types for the same values.
_WIDER: dict[pa.DataType, pa.DataType] = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
}


def spark_schema(schema: pa.Schema) -> StructType:
    """Return Spark's schema. Raises `ValueError` that names a column without a Spark type."""
    fields = []
    for field in schema:
        try:
            spark_field = field.with_type(map_type(field.type, _spark_type))
            fields.append(from_arrow_schema(pa.schema([spark_field]), prefer_timestamp_ntz=True)[0])
        except (PySparkTypeError, ValueError):
            raise ValueError(
                f"column `{field.name}` is {field.type}, and Spark has no such type; leave the "
                "column out: name the others in `.schema(…)`"
            ) from None
    return StructType(fields)


def _spark_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    if pa.types.is_dictionary(kind):
        return kind.value_type
    if pa.types.is_decimal(kind) and kind.precision > 38:
        raise ValueError("too many digits")
    return _WIDER.get(kind, kind)


def map_type(kind: pa.DataType, change: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    """Apply `change` to a type, or to the types of the values inside it, in their order."""
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(map_type(field.type, change)) for field in kind])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(map_type(kind.value_type, change))
    if pa.types.is_map(kind):
        return pa.map_(map_type(kind.key_type, change), map_type(kind.item_type, change))
    return change(kind)


def fit_batch(
    batch: pa.RecordBatch, schema: pa.Schema, parses_text: bool = False
) -> pa.RecordBatch:
    """Return `batch` with the columns of `schema`; columns that it lacks become null.

    Numbers may become wider, and nanoseconds are cut to microseconds. With `parses_text`, text may
    become a time or a decimal. Raises `ValueError` that names a column with other values.
    """
    arrays = [
        _fit_column(batch.column(field.name), field, parses_text)
        if field.name in batch.schema.names
        else pa.nulls(batch.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _fit_column(array: pa.Array, field: pa.Field, parses_text: bool) -> pa.Array:
    kind = array.type
    if kind == field.type:
        return array
    try:
        if not parses_text:
            check_cast(kind, field.type, same_fields=False)
        if pa.types.is_timestamp(kind) and kind.unit == "ns":
            return array.cast(field.type, safe=False)
        return cast_array(array, field.type)
    except (pa.ArrowException, ValueError) as error:
        text = f"column `{field.name}`: {error}; or read it with its own type, and cast it"
        raise ValueError(text) from None


def check_flat(form: str, schema: StructType) -> None:
    """Raise `ValueError` for a column that the format cannot hold, such as a list in CSV.

    A VARIANT is refused in every format: it would be written as its internal bytes.
    """
    unfit = (BinaryType, MapType, VariantType) if form in ("csv", "jsonl") else (VariantType,)
    for field in schema:
        nested = isinstance(field.dataType, StructType | ArrayType | MapType)
        if (form == "csv" and nested) or holds(field.dataType, unfit):
            raise ValueError(
                f"column `{field.name}` {field.dataType.simpleString()} cannot be in {form}; use "
                "parquet or avro, or convert it to text"
            )


def holds(kind: DataType, types: tuple[type[DataType], ...]) -> bool:
    """Return whether a type is one of `types`, or has one of them inside."""
    inside: list[DataType] = []
    if isinstance(kind, StructType):
        inside = [field.dataType for field in kind]
    elif isinstance(kind, ArrayType):
        inside = [kind.elementType]
    elif isinstance(kind, MapType):
        inside = [kind.keyType, kind.valueType]
    return isinstance(kind, types) or any(holds(inner, types) for inner in inside)


def in_utc(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Give all timestamps the zone UTC: Spark passes them in the session's time zone."""

    def utc(kind: pa.DataType) -> pa.DataType:
        return pa.timestamp("us", "UTC") if getattr(kind, "tz", None) else kind

    return batch.cast(pa.schema([f.with_type(map_type(f.type, utc)) for f in batch.schema]))


def by_partition(
    batch: pa.RecordBatch, columns: Sequence[str]
) -> Iterator[tuple[tuple[str | None, ...], pa.RecordBatch]]:
    """Yield the rows with the same values in these columns, and the values as text; never no rows.

    As in other tools, empty text is null in a partition column.
    """
    if batch.num_rows and not columns:
        yield (), batch
    groups: dict[tuple[str | None, ...], list[int]] = {}
    texts = [map(_text, batch.column(name).to_pylist()) for name in columns]
    for number, values in enumerate(zip(*texts, strict=True)):
        groups.setdefault(values, []).append(number)
    for values, numbers in groups.items():
        yield values, batch.take(pa.array(numbers))


def _text(value: Any) -> str | None:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return None if value is None else text or None
