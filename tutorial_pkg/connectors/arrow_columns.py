"""Record batches of Arrow and Spark's columns: types, columns that are missing, rows by value."""

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

__all__ = [
    "by_values",
    "check_flat",
    "check_kind",
    "check_names",
    "fitted",
    "has_required",
    "holds",
    "in_utc",
    "plain",
    "spark_schema",
]

# What Spark has no type for, and what it has that holds the same values.
_WIDER: dict[pa.DataType, pa.DataType] = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
}

_Is = Callable[[pa.DataType], bool]
_LESS: list[tuple[_Is, _Is]] = [
    (pa.types.is_float64, pa.types.is_float32),
    (pa.types.is_timestamp, pa.types.is_date),
    (pa.types.is_floating, pa.types.is_decimal),
    (pa.types.is_decimal, pa.types.is_floating),
]
_UNLIKE: list[tuple[_Is, _Is]] = [
    (pa.types.is_integer, pa.types.is_boolean),
    (pa.types.is_integer, pa.types.is_temporal),
    (pa.types.is_temporal, pa.types.is_integer),
    (pa.types.is_boolean, pa.types.is_integer),
    (pa.types.is_string, pa.types.is_integer),
    (pa.types.is_string, pa.types.is_floating),
    (pa.types.is_string, pa.types.is_boolean),
]


def spark_schema(schema: pa.Schema) -> StructType:
    """That of Spark for a file. Raises `ValueError` with the column that none can hold."""
    fields = []
    for field in schema:
        try:
            known = field.with_type(_changed(field.type, _known))
            fields.append(from_arrow_schema(pa.schema([known]), prefer_timestamp_ntz=True)[0])
        except PySparkTypeError:
            raise ValueError(
                f"column `{field.name}` is {field.type}, for which Spark has no type; leave it "
                "out: name the others in `.schema(…)`"
            ) from None
    return StructType(fields)


def plain(kind: pa.DataType) -> pa.DataType:
    """A value as JSON has it: what is no number, text or boolean is a text."""
    return _changed(kind, lambda each: pa.string() if _as_text(each) else each)


def check_names(wanted: Sequence[str], found: Sequence[str]) -> None:
    """Raises `ValueError` for a column that would be null, as its name is written differently."""
    for name in wanted:
        same = [each for each in found if each.strip().lower() == name.lower()]
        if same and same.count(name) != 1:
            raise ValueError(f"column `{name}` is wanted, and there is {same}: names must be equal")


def fitted(batch: pa.RecordBatch, wanted: pa.Schema) -> pa.RecordBatch:
    """`batch` with the columns that are wanted; nulls for those that it lacks.

    Numbers may become wider, and nanoseconds are cut to microseconds. Raises `ArrowInvalid`.
    """
    arrays = [
        _fitted(batch.column(field.name), field)
        if field.name in batch.schema.names
        else pa.nulls(batch.num_rows, field.type)
        for field in wanted
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=wanted)


def _fitted(array: pa.Array, field: pa.Field) -> pa.Array:
    kind = array.type
    if kind == field.type:
        return array
    check_kind(kind, field.type, field.name)
    safe = not (pa.types.is_timestamp(kind) and kind.unit == "ns")
    try:
        return array.cast(field.type, safe=safe)
    except pa.ArrowException as error:
        raise ValueError(f"column `{field.name}`: {error}") from None


def check_kind(kind: pa.DataType, wanted: pa.DataType, name: str) -> None:
    """Raises `ValueError` where Arrow would make another value, or a null, of one."""
    if pa.types.is_struct(kind) and pa.types.is_struct(wanted):
        found = {each.name: each.type for each in kind}
        check_names([each.name for each in wanted], list(found))
        for each in wanted:
            check_kind(found.get(each.name, each.type), each.type, f"{name}.{each.name}")
    elif pa.types.is_map(kind) and pa.types.is_map(wanted):
        check_kind(kind.key_type, wanted.key_type, f"{name}[key]")
        check_kind(kind.item_type, wanted.item_type, f"{name}[]")
    elif pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind):
        raise ValueError(
            f"column `{name}` is {kind}, and Arrow loses values when it makes a list of one; write "
            "it as a list"
        )
    elif hasattr(kind, "value_type") and pa.types.is_list(wanted):  # large, or of fixed size
        check_kind(kind.value_type, wanted.value_type, f"{name}[]")
    elif any(holds(kind) and less(wanted) for holds, less in _LESS):
        raise ValueError(
            f"column `{name}` is {kind}, of which {wanted} is only a part; read it as it is, and "
            "cast"
        )
    elif any(one(kind) and other(wanted) for one, other in _UNLIKE) or (
        (pa.types.is_timestamp(kind) or pa.types.is_date(kind))
        and bool(getattr(kind, "tz", None)) != bool(getattr(wanted, "tz", None))
    ):
        raise ValueError(
            f"column `{name}` is {kind}, and {wanted} is wanted, which is something else; read it "
            "as it is, and cast"
        )


def check_flat(form: str, schema: StructType) -> None:
    """Raises `ValueError` for a column that cannot be in text: bytes, and in CSV what is nested.

    A VARIANT would be its bytes in any format.
    """
    unfit = (BinaryType, MapType, VariantType) if form in ("csv", "jsonl") else (VariantType,)
    for field in schema:
        nested = isinstance(field.dataType, StructType | ArrayType | MapType)
        if (form == "csv" and nested) or holds(field.dataType, unfit):
            raise ValueError(
                f"column `{field.name}` {field.dataType.simpleString()} cannot be in {form}; use "
                "parquet or avro, or make a text of it"
            )


def holds(kind: DataType, wanted: tuple[type[DataType], ...]) -> bool:
    """Whether it is one of these types, or has one inside."""
    inside: list[DataType] = []
    if isinstance(kind, StructType):
        inside = [field.dataType for field in kind]
    elif isinstance(kind, ArrayType):
        inside = [kind.elementType]
    elif isinstance(kind, MapType):
        inside = [kind.keyType, kind.valueType]
    return isinstance(kind, wanted) or any(holds(each, wanted) for each in inside)


def has_required(kind: pa.DataType) -> bool:
    """Whether something inside must not be null; keys of maps never may."""
    if pa.types.is_map(kind):
        inside = [kind.item_field]
    elif pa.types.is_struct(kind):
        inside = [kind.field(number) for number in range(kind.num_fields)]
    else:
        inside = [kind.value_field] if hasattr(kind, "value_field") else []
    return any(not field.nullable or has_required(field.type) for field in inside)


def in_utc(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Spark hands over moments in the session's time zone; files of all sessions are alike."""
    fields = [
        field.with_type(pa.timestamp("us", "UTC")) if getattr(field.type, "tz", None) else field
        for field in batch.schema
    ]
    return batch.cast(pa.schema(fields))


def by_values(
    batch: pa.RecordBatch, columns: Sequence[str]
) -> Iterator[tuple[tuple[Any, ...], pa.RecordBatch]]:
    """The rows for each combination of values in some columns."""
    if not columns:
        yield (), batch
        return
    rows: dict[tuple[Any, ...], tuple[tuple[Any, ...], list[int]]] = {}
    values = zip(*(batch.column(name).to_pylist() for name in columns), strict=True)
    for row, each in enumerate(values):
        rows.setdefault(tuple(map(_exactly, each)), (each, []))[1].append(row)
    for each, places in rows.values():
        yield each, batch.take(pa.array(places))


def _exactly(value: Any) -> Any:
    """To Python -0.0 is 0.0, and a NaN no other NaN."""
    return repr(value) if isinstance(value, float) else value


def _as_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_temporal(kind) or pa.types.is_decimal(kind))


def _known(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    if pa.types.is_dictionary(kind):
        return kind.value_type
    return _WIDER.get(kind, kind)


def _changed(kind: pa.DataType, change: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    """`kind` with `change` done to all that is in it."""
    if pa.types.is_struct(kind):
        return pa.struct([each.with_type(_changed(each.type, change)) for each in kind])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(_changed(kind.value_type, change))
    if pa.types.is_map(kind):
        return pa.map_(_changed(kind.key_type, change), _changed(kind.item_type, change))
    return change(kind)
