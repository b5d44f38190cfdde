"""Rows in Python's types, packed into the record batches that Spark reads.

A row is a tuple, a `Row`, a dict by column, or a dataclass; with one column, also its value.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from numbers import Integral, Real
from typing import Any

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DoubleType,
    FloatType,
    IntegralType,
    MapType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
    UserDefinedType,
    VariantType,
)

from tutorial_pkg.core.arrow_casts import cast_array, cast_problem
from tutorial_pkg.core.spark_versions import TIME_TYPES, arrow_schema

_QUOTED = 80
_BEYOND_FLOAT = 2.0**128 - 2.0**103  # rounds to infinity
_CANNOT_HOLD = (pa.ArrowException, TypeError, ValueError, OverflowError)

Convert = Callable[[Any], Any]


class RowPacker:
    """Makes record batches of one schema.

    Values must have the column's type: `"1"` and 1.0 are not LONGs. A `datetime` without a time
    zone is in this process's local time, as everywhere in PySpark. Columns of a record batch may
    be narrower or wider than the schema's, if no value changes.
    """

    def __init__(self, schema: StructType) -> None:
        self.schema = schema
        self.arrow_schema = arrow_schema(schema)
        self._names = schema.fieldNames()
        self._unique = frozenset(self._names)
        self._small = frozenset(map(str.lower, self._names))
        self._converts = [_convert_of(field.dataType) for field in schema]

    def pack(self, rows: Sequence[Any]) -> pa.RecordBatch:
        """Return all rows as one batch. Raise `ValueError` for the first value that doesn't fit."""
        columns = self._columns(rows)
        arrays = [self._array(index, values) for index, values in enumerate(columns)]
        return pa.RecordBatch.from_arrays(arrays, schema=self.arrow_schema)

    def fit(self, batch: pa.RecordBatch, strict: bool = True) -> pa.RecordBatch:
        """Return `batch` with the schema's columns, order and types.

        Args:
            strict: Whether to refuse casts that Arrow would make, such as texts to numbers.

        Raises:
            ValueError: A column is missing, or cannot be cast.
        """
        if not isinstance(batch, pa.RecordBatch):
            raise ValueError(f"expected a pyarrow.RecordBatch, got a {type(batch).__name__}")
        if batch.schema.equals(self.arrow_schema):
            for index, array in enumerate(batch.columns):
                self._check_nulls(array, index)
            return batch
        if sorted(batch.schema.names) != sorted(self._names):
            raise ValueError(
                f"expected a record batch with the columns {self._names}, got {batch.schema.names}"
            )
        arrays = [
            self._cast(batch.column(name), index, strict) for index, name in enumerate(self._names)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.arrow_schema)

    def values(self, row: Any) -> tuple[Any, ...]:
        """Return a row's values in the order of the columns, or raise `ValueError`."""
        if isinstance(row, dict):
            return self._by_name(row)
        if isinstance(row, Row) and hasattr(row, "__fields__"):
            return self._by_name(row.asDict(), row.__fields__)
        if dataclasses.is_dataclass(row) and not isinstance(row, type):
            fields = dataclasses.fields(row)
            return self._by_name({field.name: getattr(row, field.name) for field in fields})
        names = getattr(row, "_fields", ())  # of a named tuple
        if not self._small.isdisjoint(map(str.lower, names)):
            return self._by_name(row._asdict())
        if not isinstance(row, tuple) and len(self._names) == 1:
            row = (row,)
        if not isinstance(row, tuple) or len(row) != len(self._names):
            raise ValueError(
                f"expected a tuple of {len(self._names)}, a dict or a dataclass for the columns "
                f"{self._names}, got {_quoted(row)}"
            )
        return row

    def _by_name(self, row: dict[str, Any], names: Sequence[str] = ()) -> tuple[Any, ...]:
        """Look up the columns in a dict; a missing one is null. `names` may contain duplicates."""
        if len(row) < len(names) or len(self._unique) < len(self._names):
            raise ValueError(
                f"names occur twice, so {_quoted(row)} is ambiguous: add a tuple of "
                f"{len(self._names)}"
            )
        if not row.keys() <= self._unique:
            unknown = sorted(row.keys() - self._unique)
            raise ValueError(f"expected the columns {self._names}, got {unknown} in {_quoted(row)}")
        return tuple(map(row.get, self._names))

    def _columns(self, rows: Sequence[Any]) -> Iterable[Sequence[Any]]:
        """Transpose rows, without a Python loop if they are plain tuples of the right length."""
        width = len(self._names)
        if set(map(type, rows)) != {tuple} or set(map(len, rows)) != {width}:
            rows = [self.values(row) for row in rows]
        return zip(*rows, strict=True)

    def _array(self, index: int, values: Sequence[Any]) -> pa.Array:
        kind, convert = self.arrow_schema.field(index).type, self._converts[index]
        try:
            array = _to_arrow(values, kind, convert)
        except _CANNOT_HOLD:
            for value in values:
                try:
                    _to_arrow([value], kind, convert)
                except _CANNOT_HOLD as error:
                    text = f"column {self._name(index)} cannot hold {_quoted(value)}: {error}"
                    raise ValueError(text) from error
            raise
        self._check_nulls(array, index)
        return array

    def _cast(self, array: pa.Array, index: int, strict: bool) -> pa.Array:
        kind = self.arrow_schema.field(index).type
        try:
            problem = cast_problem(array.type, kind, may_round=True) if strict else None
            if problem is None:
                array = cast_array(array, kind)
        except pa.ArrowException as error:
            problem = str(error)
        if problem:
            raise ValueError(f"column {self._name(index)} of a record batch: {problem}")
        self._check_nulls(array, index)
        return array

    def _check_nulls(self, array: pa.Array, index: int) -> None:
        field = self.schema[index]
        if array.null_count and not field.nullable:
            raise ValueError(f"column {self._name(index)} is NOT NULL, got a null")
        if _has_inner_null(array, field.dataType):
            raise ValueError(f"column {self._name(index)} has a null inside that must not be null")

    def _name(self, index: int) -> str:
        field = self.schema[index]
        return f"`{field.name}` {field.dataType.simpleString().upper()}"


def _to_arrow(values: Sequence[Any], kind: pa.DataType, convert: Convert | None) -> pa.Array:
    if convert and not set(map(type, values)) - {type(None)} <= _UNCHANGED.get(convert, set()):
        values = [None if value is None else convert(value) for value in values]
    return pa.array(values, type=kind)


def _has_inner_null(array: pa.Array, kind: DataType) -> bool:
    """Return whether a nested value has a null that its type forbids. Arrow doesn't check it."""
    return any(
        (part.null_count and not nullable) or _has_inner_null(part, inner)
        for part, inner, nullable in _inner_arrays(array, kind)
    )


def _inner_arrays(array: pa.Array, kind: DataType) -> Iterator[tuple[pa.Array, DataType, bool]]:
    if isinstance(kind, ArrayType):
        yield array.flatten(), kind.elementType, kind.containsNull
    elif isinstance(kind, MapType):
        first, end = array.offsets[0].as_py(), array.offsets[-1].as_py()
        yield array.items[first:end], kind.valueType, kind.valueContainsNull
    elif isinstance(kind, StructType):
        for part, field in zip(array.drop_null().flatten(), kind, strict=True):
            yield part, field.dataType, field.nullable


def _quoted(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _QUOTED else f"{text[:_QUOTED]}..."


# ---- Python's values: Arrow alone would accept some that mean something else ---------------------


def _convert_of(kind: DataType) -> Convert | None:
    """Return a function that checks values of a column, or None if Arrow's checks are enough."""
    for kinds, convert in _CONVERTS:
        if isinstance(kind, kinds):
            return convert
    if isinstance(kind, VariantType):
        return lambda variant: {"value": variant.value, "metadata": variant.metadata}
    if isinstance(kind, UserDefinedType):
        inner = _or_null(_convert_of(kind.sqlType()))
        return lambda value: inner(kind.serialize(value))
    if isinstance(kind, StructType):
        return _struct_convert(kind)
    if isinstance(kind, ArrayType):
        return _list_convert(_or_null(_convert_of(kind.elementType)))
    if isinstance(kind, MapType):
        return _map_convert(*map(_or_null, map(_convert_of, (kind.keyType, kind.valueType))))
    return None


def _check(kinds: type | tuple[type, ...], expected: str, then: Convert | None = None) -> Convert:
    """Return a function that refuses values of other types, and bools."""

    def convert(value: Any) -> Any:
        if not isinstance(value, kinds) or isinstance(value, bool):
            raise ValueError(f"expected {expected}, got a {type(value).__name__}")
        return then(value) if then else value

    return convert


def _within_float(value: Any) -> Any:
    if abs(value) >= _BEYOND_FLOAT and not math.isinf(value):
        raise ValueError("it is beyond the range of FLOAT; make the column a DOUBLE")
    return value


def _with_zone(value: Any) -> Any:
    return value.astimezone() if value.tzinfo is None else value


def _without_zone(value: Any) -> Any:
    if value.tzinfo is not None:
        raise ValueError("it has a time zone, the column has none: use `.replace(tzinfo=None)`")
    return value


def _without_time(value: Any) -> Any:
    if isinstance(value, datetime):
        raise ValueError("it has a time, the column has none: use `.date()`")
    return value


_whole = _check(Integral, "an int (or use `int(...)`, `round(...)`)")
_real = _check(Real, "a number")
_text = _check(str, "a str (of bytes: `.decode()`)")
_bytes = _check((bytes, bytearray, memoryview), "bytes (of a str: `.encode()`)")
_day = _check(date, "a date (of a text: `date.fromisoformat(text)`)", _without_time)
_interval = _check(timedelta, "a timedelta (`timedelta(seconds=...)`)")
_CONVERTS: list[tuple[type | tuple[type, ...], Convert]] = [
    (IntegralType, _whole),
    (FloatType, _check(Real, "a number", _within_float)),
    (DoubleType, _real),
    (StringType, _text),
    (BinaryType, _bytes),
    (
        TimestampType,
        _check(datetime, "a datetime (of seconds: `datetime.fromtimestamp(...)`)", _with_zone),
    ),
    (TimestampNTZType, _check(datetime, "a datetime", _without_zone)),
    (DateType, _day),
    (TIME_TYPES, _check(time, "a time", _without_zone)),  # those above are among them, too
    (DayTimeIntervalType, _interval),
]
# Columns with only these types, and nulls, go to Arrow without a Python loop.
_UNCHANGED: dict[Convert, set[type]] = {
    _whole: {int},
    _real: {float, int},
    _text: {str},
    _bytes: {bytes},
    _day: {date},
    _interval: {timedelta},
}


def _or_null(convert: Convert | None) -> Convert:
    return lambda value: value if value is None or convert is None else convert(value)


def _struct_convert(kind: StructType) -> Convert:
    packer = RowPacker(kind)
    converts = [_or_null(_convert_of(field.dataType)) for field in kind]

    def convert(value: Any) -> dict[str, Any]:
        values = zip(kind.fieldNames(), converts, packer.values(value), strict=True)
        return {name: convert(part) for name, convert, part in values}

    return convert


def _list_convert(element: Convert) -> Convert:
    def convert(values: Any) -> list[Any]:
        if isinstance(values, str | bytes | bytearray | Mapping):  # which are iterable, too
            raise ValueError(f"expected a list, got a {type(values).__name__}")
        return [element(value) for value in values]

    return convert


def _map_convert(key: Convert, value: Convert) -> Convert:
    return _check(
        Mapping, "a dict", lambda items: [(key(name), value(x)) for name, x in items.items()]
    )
