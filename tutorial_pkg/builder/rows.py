"""Rows in Python's types, packed into the record batches that Spark reads."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from numbers import Integral, Real
from typing import Any

import pyarrow as pa
from pyspark.sql import types

from tutorial_pkg.builder.context import DEAD_LETTERS, SplitContext
from tutorial_pkg.core.arrow_casts import cast_array, check_cast
from tutorial_pkg.core.dead_letters import DeadLetters
from tutorial_pkg.core.spark_versions import TimeType, arrow_schema

_PACK_ROWS = 65_536  # so that a long `fill` needs little memory
_IMMUTABLE = (tuple, str, int, float, bytes)  # other rows may change before they are packed
QUOTED = 80  # characters of a value in an error
_BEYOND_FLOAT = 2.0**128 - 2.0**103  # rounds to infinity
_CANNOT_HOLD = (pa.ArrowException, TypeError, ValueError, OverflowError)

Convert = Callable[[Any], Any]


class RowPacker:
    """Makes record batches of one schema. Values must have the column's type."""

    def __init__(self, schema: types.StructType) -> None:
        self.schema = schema
        self.arrow_schema = arrow_schema(schema)
        self._names = schema.fieldNames()
        self._columns = [_column_of(field.dataType) for field in schema]

    def pack(self, rows: Sequence[Any]) -> pa.RecordBatch:
        """Return all rows as one batch. Raise `ValueError` for the first value that doesn't fit."""
        width = len(self._names)
        if set(map(type, rows)) != {tuple} or set(map(len, rows)) != {width}:
            rows = [self.values(row) for row in rows]
        columns = enumerate(zip(*rows, strict=True))
        return self._batch([self._array(index, values) for index, values in columns])

    def fit(self, batch: pa.RecordBatch, strict: bool = True) -> pa.RecordBatch:
        """Return `batch` with the schema's columns, order and types, or raise `ValueError`.

        If `strict`, refuse casts that Arrow would make, such as texts to numbers.
        """
        if not isinstance(batch, pa.RecordBatch):
            raise ValueError(f"expected a pyarrow.RecordBatch, got a {type(batch).__name__}")
        if sorted(batch.schema.names) != sorted(self._names):
            raise ValueError(
                f"expected a record batch with the columns {self._names}, got {batch.schema.names}"
            )
        if batch.schema.equals(self.arrow_schema):  # saves half the time of a small batch
            return self._batch(batch.columns)
        columns = enumerate(map(batch.column, self._names))
        return self._batch([self._cast(array, index, strict) for index, array in columns])

    def values(self, row: Any) -> tuple[Any, ...]:
        """Return a row's values in the order of the columns, or raise `ValueError`."""
        names = getattr(row, "__fields__", None) or getattr(row, "_fields", None)
        if dataclasses.is_dataclass(row) and not isinstance(row, type):
            row = {field.name: getattr(row, field.name) for field in dataclasses.fields(row)}
        if isinstance(row, dict):
            return self._by_name(list(row.items()))
        if names:  # a `Row` or a named tuple
            return self._by_name(list(zip(names, row, strict=True)))
        if not isinstance(row, tuple) and len(self._names) == 1:
            row = (row,)
        if not isinstance(row, tuple) or len(row) != len(self._names):
            raise ValueError(
                f"expected a tuple of {len(self._names)}, a dict or a dataclass for the columns "
                f"{self._names}, got {quoted(row)}"
            )
        return row

    def _by_name(self, pairs: list[tuple[str, Any]]) -> tuple[Any, ...]:
        row = dict(pairs)
        if len(row) < len(pairs) or len(set(self._names)) < len(self._names):
            raise ValueError(f"names occur twice, so {quoted(row)} is ambiguous: add a tuple")
        if unknown := sorted(row.keys() - set(self._names)):
            raise ValueError(f"expected the columns {self._names}, got {unknown} in {quoted(row)}")
        return tuple(map(row.get, self._names))

    def _array(self, index: int, values: Sequence[Any]) -> pa.Array:
        try:
            return self._converted(index, values)
        except _CANNOT_HOLD:
            for value in values:
                try:
                    self._converted(index, [value])
                except _CANNOT_HOLD as error:
                    text = f"column {self._name(index)} cannot hold {quoted(value)}: {error}"
                    raise ValueError(text) from error
            raise

    def _converted(self, index: int, values: Sequence[Any]) -> pa.Array:
        convert, plain = self._columns[index]
        if convert is not _unchanged and not set(map(type, values)) <= plain:
            values = [None if value is None else convert(value) for value in values]
        return pa.array(values, type=self.arrow_schema.field(index).type)

    def _cast(self, array: pa.Array, index: int, strict: bool) -> pa.Array:
        kind = self.arrow_schema.field(index).type
        try:
            if strict:
                check_cast(array.type, kind, may_round=True)
            array = cast_array(array, kind)
        except (pa.ArrowException, ValueError) as error:
            raise ValueError(f"column {self._name(index)} of a record batch: {error}") from None
        return array

    def _batch(self, arrays: list[pa.Array]) -> pa.RecordBatch:
        for index, array in enumerate(arrays):
            if array.null_count and not self.schema[index].nullable:
                raise ValueError(f"column {self._name(index)} is NOT NULL, got a null")
        return pa.RecordBatch.from_arrays(arrays, schema=self.arrow_schema)

    def _name(self, index: int) -> str:
        field = self.schema[index]
        return f"`{field.name}` {field.dataType.simpleString().upper()}"


def quoted(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= QUOTED else f"{text[:QUOTED]}..."


# ---- The buffer of a `fill` ----------------------------------------------------------------------


class Buffer:
    """Takes the rows of one `fill`. Those that don't fit become dead letters, or an error."""

    def __init__(self, packer: RowPacker, letters: DeadLetters | None = None) -> None:
        self._packer, self._letters = packer, letters
        self._rows: list[Any] = []
        self._batches: list[pa.RecordBatch] = []
        self._tokens: list[Any] = []
        self.closed = self.keeps_place = False
        self.connected = True  # a source sets it to False while it waits for its other side
        self.dead_letters = 0

    @classmethod
    def of(cls, source: str, query: SplitContext) -> Buffer:
        folder = getattr(query.options, DEAD_LETTERS.name, None)
        return cls(RowPacker(query.schema), DeadLetters(folder, source) if folder else None)

    def add(self, row: Any, token: Any = None) -> None:
        """Add a row: a tuple, a `Row`, a dict, a dataclass; with one column also its value.

        Values with names are matched to columns by name. A dict is always a row, so put a map that
        is the only column into a tuple. Values must have the column's type: an `int` for LONG or
        DOUBLE, a `str` for STRING, a `datetime` for TIMESTAMP (without a time zone, in this
        process's local time). A value that doesn't fit ends the query, perhaps some rows later,
        unless the source has the option `DEAD_LETTERS`. Don't change lists and dicts inside a row
        until `fill` has returned.

        `acknowledge` gets the `token` when the row is on disk. Call `add` in the thread of `fill`
        only: for a client that calls back there is `SourceBuilder.pushed`.
        """
        try:
            self._rows.append(row if type(row) in _IMMUTABLE else self._packer.values(row))
        except ValueError as error:
            self._reject(row, error)
        if token is not None:
            self._tokens.append(token)
        if len(self._rows) % _PACK_ROWS == 0:
            self._pack()

    def add_batch(self, batch: pa.RecordBatch, token: Any = None) -> None:
        """Add all rows of a `pyarrow.RecordBatch`: many times faster than row by row.

        Columns may have another width than the schema's (int32 for LONG), but not another type. A
        TIMESTAMP column needs times with a zone: `pyarrow.compute.assume_timezone` adds one.
        """
        self._pack()
        batch = self._packer.fit(batch)
        if batch.num_rows:
            self._batches.append(batch)
        if token is not None:
            self._tokens.append(token)

    def close(self) -> None:
        """End the source: `fill` is not called again until the query is restarted.

        A stream without a `snapshot` then starts over, and its rows are duplicated.
        """
        self.closed = True

    def keep_place(self) -> None:
        """Log the snapshot even if this `fill` adds no row, such as the start of a partition."""
        self.keeps_place = True

    def check_returned(self, returned: Any) -> None:
        are_rows = isinstance(returned, list | pa.RecordBatch)
        if are_rows and not self.rows and any(item is not None for item in returned):
            kind = type(returned).__name__
            raise TypeError(f"it returned a {kind} and added no row; use `buffer.add(row)`")

    @property
    def rows(self) -> int:
        """The number of rows since the last `take`."""
        return int(len(self._rows) + sum(batch.num_rows for batch in self._batches))

    def take(self, *position: Any) -> tuple[list[pa.RecordBatch], list[Any]]:
        """Return the new rows and tokens; without rows, an empty batch if the place is kept.

        Dead letters go into the file for this `position` in the source.
        """
        self._pack()
        batches, self._batches = self._batches, []
        tokens, self._tokens = self._tokens, []
        letters = self._letters.save(*position) if self._letters else 0
        self.dead_letters += letters
        if (self.keeps_place or letters) and not batches:
            batches = [pa.RecordBatch.from_pylist([], self._packer.arrow_schema)]
        self.keeps_place = False
        return batches, tokens

    def pack_all(self, rows: Any, *position: Any) -> Iterator[pa.RecordBatch]:
        """Add what a `read` returned, and yield it packed."""
        if isinstance(rows, pa.RecordBatch):
            rows = [rows]
        if isinstance(rows, str | bytes | Mapping):  # in a loop, its letters or keys would be rows
            raise TypeError(f"expected a list of rows, got a {type(rows).__name__}")
        for row in rows:
            if isinstance(row, pa.RecordBatch):
                self.add_batch(row)
            else:
                self.add(row)
            while self._batches:
                yield self._batches.pop(0)
        yield from self.take(*position)[0]

    def _pack(self) -> None:
        """Pack the rows. After an error they stay, so a `fill` that catches it loses none."""
        if self._rows:
            self._batches += self._fitting(self._rows)
            self._rows = []

    def _fitting(self, rows: list[Any]) -> list[pa.RecordBatch]:
        """Pack the rows without those that don't fit, found by cutting in halves."""
        try:
            return [self._packer.pack(rows)]
        except ValueError as error:
            if self._letters is None or len(rows) == 1:
                self._reject(rows[0], error)
                return []
        half = len(rows) // 2
        return self._fitting(rows[:half]) + self._fitting(rows[half:])

    def _reject(self, row: Any, error: ValueError) -> None:
        if self._letters is None:
            raise error
        self._letters.add(row, error)


# ---- Columns: Arrow alone would accept some values that mean something else ----------------------


def _only(
    accepted: type | tuple[type, ...], expected: str, convert: Convert | None = None
) -> Convert:
    """Return a function that accepts only these types, and no bool: it is an `int` to Python."""

    def checked(value: Any) -> Any:
        if not isinstance(value, accepted) or isinstance(value, bool):
            raise ValueError(f"expected {expected}, got a {type(value).__name__}")
        return convert(value) if convert else value

    return checked


def _unchanged(value: Any) -> Any:
    return value  # Arrow's own checks are enough


def _within_float(value: Any) -> Any:
    if abs(value) >= _BEYOND_FLOAT and not math.isinf(value):
        raise ValueError("it is beyond the range of FLOAT; make the column a DOUBLE")
    return value


def _in_micros(value: Any) -> Any:
    if type(value) is datetime:
        return value
    if max(getattr(value, "nanosecond", 0), getattr(value, "nanoseconds", 0)) > 0:  # of pandas
        raise ValueError("it has nanoseconds, the column has microseconds: use `.floor('us')`")
    return value


def _with_zone(value: Any) -> Any:
    _in_micros(value)
    return value.astimezone() if value.tzinfo is None else value


def _without_zone(value: Any) -> Any:
    if value.tzinfo is not None:
        raise ValueError("it has a time zone, the column has none: use `.replace(tzinfo=None)`")
    return _in_micros(value)


def _without_time(value: Any) -> Any:
    if isinstance(value, datetime):
        raise ValueError("it has a time, the column has none: use `.date()`")
    return value


# Spark's types, the Python types that need no check, and the check of the others
_FLAT: list[tuple[type | tuple[type, ...], tuple[type, ...], Convert]] = [
    (types.IntegralType, (int,), _only(Integral, "an int")),
    (types.FloatType, (), _only(Real, "a number", _within_float)),
    (types.DoubleType, (float, int), _only(Real, "a number")),
    (types.StringType, (str,), _only(str, "a str")),
    (types.BinaryType, (bytes,), _only((bytes, bytearray, memoryview), "bytes")),
    (types.TimestampType, (), _only(datetime, "a datetime", _with_zone)),
    (types.TimestampNTZType, (), _only(datetime, "a datetime", _without_zone)),
    (types.DateType, (date,), _only(date, "a date", _without_time)),
    (TimeType, (), _only(time, "a time", _without_zone)),
    (types.DayTimeIntervalType, (timedelta,), _only(timedelta, "a timedelta", _in_micros)),
    (types.VariantType, (), _only(types.VariantVal, "a VariantVal", vars)),
]


def _column_of(kind: types.DataType) -> tuple[Convert, set[type]]:
    plain = (plain for kinds, plain, _ in _FLAT if isinstance(kind, kinds))
    return _converter(kind), {*next(plain, ()), type(None)}


def _converter(kind: types.DataType) -> Convert:
    if isinstance(kind, types.StructType):
        values, fields = RowPacker(kind).values, [_inside(f.dataType, f.nullable) for f in kind]
        return lambda row: {
            name: field(value)
            for name, field, value in zip(kind.names, fields, values(row), strict=True)
        }
    if isinstance(kind, types.ArrayType):
        element = _inside(kind.elementType, kind.containsNull)
        return lambda values: [element(value) for value in _listed(values)]
    if isinstance(kind, types.MapType):
        key, item = _inside(kind.keyType), _inside(kind.valueType, kind.valueContainsNull)
        pairs = lambda values: [(key(k), item(v)) for k, v in values.items()]  # noqa: E731
        return _only(Mapping, "a dict", pairs)
    converters = (convert for kinds, _, convert in _FLAT if isinstance(kind, kinds))
    return next(converters, _unchanged)


def _inside(kind: types.DataType, nullable: bool = True) -> Convert:
    convert = _converter(kind)

    def converted(value: Any) -> Any:
        if value is None and not nullable:
            raise ValueError("it has a null inside that must not be null")
        return None if value is None else convert(value)

    return converted


def _listed(values: Any) -> Any:
    if isinstance(values, str | bytes | bytearray | Mapping):  # which are iterable, too
        raise ValueError(f"expected a list, got a {type(values).__name__}")
    return values
