"""Rows, as Python people write them, to the record batches that Spark reads.

A row is a tuple, a `Row`, a dict by column, a dataclass; or, if there is one column, its value.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime
from itertools import permutations
from numbers import Integral, Number, Real
from struct import Struct
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
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    UserDefinedType,
    VariantType,
)

from tutorial_pkg.core import compute as pc
from tutorial_pkg.core.spark_versions import TIME_TYPES, arrow_schema

_QUOTED = 80
_SINGLE = Struct("<f")  # which minds the range; the native one makes infinity as well
_NOT_FITTING = (pa.ArrowException, TypeError, ValueError, OverflowError)

Convert = Callable[[Any], Any]


class RowPacker:
    """Makes record batches of one schema.

    Numbers, texts and so on must be what the column holds: `"1"` and 1.0 are not LONGs. A
    `datetime` without a zone is in this process's local time, as everywhere in PySpark. A record
    batch has types that say what its values are: other widths will do, other kinds and lost digits
    will not.
    """

    def __init__(self, schema: StructType) -> None:
        self.schema = schema
        self.arrow_schema = arrow_schema(schema)
        self._names = schema.fieldNames()
        self._known = frozenset(self._names)
        self._known_small = frozenset(map(str.lower, self._names))
        self._converts = [_convert_of(field.dataType) for field in schema]

    def pack(self, rows: Sequence[Any]) -> pa.RecordBatch:
        """All rows as one batch. Raises `ValueError` that quotes the first that does not fit."""
        columns = self._columns(rows)
        arrays = [self._array(index, values) for index, values in enumerate(columns)]
        return pa.RecordBatch.from_arrays(arrays, schema=self.arrow_schema)

    def fit(self, batch: pa.RecordBatch, strict: bool = True) -> pa.RecordBatch:
        """`batch` with the schema's columns, in its order and of its types. Raises `ValueError`.

        If not `strict`, whatever Arrow can cast will do: texts for numbers, and so on.
        """
        if not isinstance(batch, pa.RecordBatch):
            raise ValueError(f"`add_batch` takes a pyarrow.RecordBatch, got {type(batch).__name__}")
        if batch.schema.equals(self.arrow_schema):
            for index, array in enumerate(batch.columns):
                self._complete(array, index)
            return batch
        if sorted(batch.schema.names) != sorted(self._names):
            raise ValueError(
                f"a record batch has the columns {batch.schema.names}, but the schema {self._names}"
            )
        if strict:
            self._check_kinds(batch.schema)
        arrays = [self._cast(batch.column(field.name), field) for field in self.arrow_schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self.arrow_schema)

    def _columns(self, rows: Sequence[Any]) -> Iterable[Sequence[Any]]:
        """Without a Python loop when all rows are plain tuples of the right length."""
        width = len(self._names)
        if set(map(type, rows)) != {tuple} or set(map(len, rows)) != {width}:
            rows = [self.values(row) for row in rows]
        return zip(*rows, strict=True)

    def values(self, row: Any) -> tuple[Any, ...]:
        """A row's values in the order of the columns. Raises `ValueError` for what is no row."""
        if isinstance(row, dict):
            return self._by_name(row)
        if isinstance(row, Row) and hasattr(row, "__fields__"):
            return self._by_name(row.asDict(), row.__fields__)
        if dataclasses.is_dataclass(row) and not isinstance(row, type):
            fields = dataclasses.fields(row)
            return self._by_name({field.name: getattr(row, field.name) for field in fields})
        names = getattr(row, "_fields", ())  # of a named tuple
        if not self._known_small.isdisjoint(map(str.lower, names)):
            return self._by_name(row._asdict())
        if not isinstance(row, tuple) and len(self._names) == 1:
            row = (row,)
        if not isinstance(row, tuple) or len(row) != len(self._names):
            raise ValueError(
                f"row {_quoted(row)} does not fit the columns {self._names}; add a tuple of "
                f"{len(self._names)}, a dict or a dataclass"
            )
        return row

    def _by_name(self, row: dict[str, Any], names: Sequence[str] = ()) -> tuple[Any, ...]:
        """A column that is not in the dict is null. `names` are all that there were before."""
        if len(row) < len(names) or len(self._known) < len(self._names):
            raise ValueError(
                f"row {_quoted(row)} has values by name, and some names are equal: add a tuple of "
                f"{len(self._names)}"
            )
        if not row.keys() <= self._known:
            unknown = sorted(row.keys() - self._known)
            raise ValueError(f"row {_quoted(row)} has {unknown}, but the columns are {self._names}")
        return tuple(map(row.get, self._names))

    def _array(self, index: int, values: Sequence[Any]) -> pa.Array:
        field, convert = self.arrow_schema.field(index), self._converts[index]
        try:
            array = _to_arrow(values, field.type, convert)
        except _NOT_FITTING as error:
            raise ValueError(self._wrong_text(index, values, error)) from error
        return self._complete(array, index)

    def _check_kinds(self, given: pa.Schema) -> None:
        for index, field in enumerate(self.arrow_schema):
            if reason := _another_value(given.field(field.name).type, field.type):
                raise ValueError(f"column {self._name(index)} of a record batch: {reason}")

    def _cast(self, array: pa.Array, field: pa.Field) -> pa.Array:
        index = self._names.index(field.name)
        try:
            cast = array.cast(field.type)
            if _infinities(cast) > _infinities(array):
                raise pa.ArrowInvalid("a number is beyond FLOAT's range")
        except pa.ArrowException as error:
            raise ValueError(f"column {self._name(index)} of a record batch: {error}") from error
        return self._complete(cast, index)

    def _complete(self, array: pa.Array, index: int) -> pa.Array:
        field = self.schema[index]
        if array.null_count and not field.nullable:
            raise ValueError(f"column {self._name(index)} must not be null")
        if _has_null_inside(array, field.dataType):
            raise ValueError(f"column {self._name(index)} has a null inside that must not be one")
        return array

    def _wrong_text(self, index: int, values: Sequence[Any], error: Exception) -> str:
        kind, convert = self.arrow_schema.field(index).type, self._converts[index]
        wrong = next((value for value in values if not _fits(value, kind, convert)), None)
        return f"column {self._name(index)} cannot hold {_quoted(wrong)}: {error}"

    def _name(self, index: int) -> str:
        field = self.schema[index]
        return f"`{field.name}` {field.dataType.simpleString().upper()}"


def _to_arrow(values: Sequence[Any], kind: pa.DataType, convert: Convert | None) -> pa.Array:
    if convert and not set(map(type, values)) <= _AS_THEY_ARE.get(convert, set()):
        values = [None if value is None else convert(value) for value in values]
    return pa.array(values, type=kind)


def _has_null_inside(array: pa.Array, kind: DataType) -> bool:
    """Whether a list, map or struct has a null where its type has none; Arrow does not look."""
    inside: Iterable[tuple[pa.Array, DataType, bool]] = []
    if isinstance(kind, ArrayType):
        inside = [(array.flatten(), kind.elementType, kind.containsNull)]
    elif isinstance(kind, MapType):
        first, end = array.offsets[0].as_py(), array.offsets[-1].as_py()
        inside = [(array.items[first:end], kind.valueType, kind.valueContainsNull)]
    elif isinstance(kind, StructType):
        parts = zip(array.drop_null().flatten(), kind, strict=True)
        inside = [(part, field.dataType, field.nullable) for part, field in parts]
    return any(
        (part.null_count and not may_be_null) or _has_null_inside(part, of)
        for part, of, may_be_null in inside
    )


def _fits(value: Any, kind: pa.DataType, convert: Convert | None) -> bool:
    try:
        _to_arrow([value], kind, convert)
    except _NOT_FITTING:
        return False
    return True


def _quoted(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _QUOTED else f"{text[:_QUOTED]}..."


# ---- Values that Arrow does not take as they are, or takes for others; else None -----------------


def _convert_of(kind: DataType) -> Convert | None:
    if isinstance(kind, IntegralType):
        return _whole
    if isinstance(kind, FloatType):
        return _single
    if isinstance(kind, DoubleType):
        return _no_truth
    if isinstance(kind, StringType):
        return _text
    if isinstance(kind, BinaryType):
        return _bytes
    if isinstance(kind, TimestampType):
        return _aware
    if isinstance(kind, TimestampNTZType):
        return _naive
    if isinstance(kind, DateType):
        return _date
    if isinstance(kind, TIME_TYPES):
        return _clock
    if isinstance(kind, DayTimeIntervalType):
        return _span
    if isinstance(kind, VariantType):
        return lambda variant: {"value": variant.value, "metadata": variant.metadata}
    if isinstance(kind, UserDefinedType):
        return _then(kind.serialize, _convert_of(kind.sqlType()))
    if isinstance(kind, StructType):
        return _struct_convert(kind)
    if isinstance(kind, ArrayType):
        return _list_convert(_convert_of(kind.elementType))
    if isinstance(kind, MapType):
        return _map_convert(_convert_of(kind.keyType), _convert_of(kind.valueType))
    return None


def _whole(value: Any) -> Any:
    """Arrow would make 1 of 1.5, and of NumPy's truth; NumPy calls its durations whole numbers."""
    if not isinstance(value, Integral) or _numpy_kind(value) == "m":
        raise ValueError("it is not a whole number; say `int(...)` or `round(...)`")
    return value


def _text(value: Any) -> Any:
    """Arrow would decode it."""
    if isinstance(value, bytes | bytearray | memoryview):
        raise ValueError("bytes are not text; say `.decode()`")
    return value


def _bytes(value: Any) -> Any:
    """Arrow would encode it."""
    if isinstance(value, str):
        raise ValueError("a text is not bytes; say `.encode()`")
    return value


def _no_truth(value: Any) -> Any:
    """Arrow would make 1.0 of `True`."""
    if isinstance(value, bool):
        raise ValueError("a truth value is not a number; say `int(...)`")
    return value


def _single(value: Any) -> Any:
    """Arrow would make infinity of 1e300."""
    if isinstance(_no_truth(value), Real):
        try:
            _SINGLE.pack(float(value))
        except OverflowError:
            raise ValueError("it is beyond FLOAT's range; make the column a DOUBLE") from None
    return value


def _aware(value: Any) -> Any:
    if not isinstance(value, datetime):
        return _time(_no_date(value))
    value = _whole_micros(value)
    return value.astimezone() if value.tzinfo is None else value


def _no_date(value: Any) -> Any:
    """Arrow would take midnight of UTC."""
    if isinstance(value, date):
        raise ValueError("a date is no moment; say `datetime.combine(day, time(), zone)`")
    return value


def _naive(value: Any) -> Any:
    """Arrow would show the time of UTC."""
    if not isinstance(value, datetime):
        return _time(value)
    if value.tzinfo is not None:
        raise ValueError(
            "it has a zone, and the column none; say `.replace(tzinfo=None)` for the time it shows"
        )
    return _whole_micros(value)


def _whole_micros(value: Any) -> Any:
    """pandas' times have nanoseconds, and an `astimezone` of their own."""
    if not hasattr(value, "to_pydatetime"):
        return value
    if value.nanosecond:
        raise ValueError("it has nanoseconds, and the column none; say `.round('us')`")
    return value.to_pydatetime()


def _date(value: Any) -> Any:
    """Arrow would cut the time off."""
    if isinstance(value, datetime):
        raise ValueError("it has a time, and the column none; say `.date()`")
    return _time(value)


def _clock(value: Any) -> Any:
    """Arrow would leave out the zone, the date of NumPy's times, and its own nanoseconds."""
    if getattr(value, "tzinfo", None) is not None:
        raise ValueError("it has a zone, and the column none; say `.replace(tzinfo=None)`")
    if _numpy_kind(value) == "M":
        raise ValueError("it has a date, and the column none; say `.item().time()`")
    if isinstance(value, pa.Time64Scalar):
        return value.cast(pa.time64("us"))
    return _time(value)


def _time(value: Any) -> Any:
    """Arrow would take seconds since 1970 for microseconds, texts and truths for numbers."""
    if isinstance(value, Number) or _numpy_kind(value) == "b":
        raise ValueError("a number is not a time; say `datetime.fromtimestamp(seconds, UTC)`")
    if isinstance(value, str):
        raise ValueError("a text is not a time; say `datetime.fromisoformat(text)`")
    return value


def _numpy_kind(value: Any) -> str | None:
    """The letter of a NumPy value's type."""
    return getattr(getattr(value, "dtype", None), "kind", None)


def _span(value: Any) -> Any:
    """Arrow would take a number for microseconds, and cut pandas' nanoseconds off."""
    if isinstance(value, Number):
        raise ValueError("a number is not an interval; say `timedelta(seconds=...)`")
    if getattr(value, "nanoseconds", 0):
        raise ValueError("it has nanoseconds, and the column none; say `.round('us')`")
    return value


# Columns of these alone go to Arrow without a Python loop.
_AS_THEY_ARE: dict[Convert, set[type]] = {
    _whole: {int, type(None)},
    _no_truth: {float, int, type(None)},
    _text: {str, type(None)},
    _bytes: {bytes, type(None)},
}


def _then(first: Convert, second: Convert | None) -> Convert:
    return (lambda value: second(first(value))) if second else first


def _or_null(convert: Convert | None) -> Convert:
    return lambda value: value if value is None or convert is None else convert(value)


def _struct_convert(kind: StructType) -> Convert:
    """Of a tuple, a `Row`, a dict or a dataclass, as with rows."""
    packer_of_values = RowPacker(kind)
    converts = [_or_null(_convert_of(field.dataType)) for field in kind]

    def convert(value: Any) -> dict[str, Any]:
        values = packer_of_values.values(value)
        pairs: Iterable[tuple[StructField, Convert, Any]] = zip(kind, converts, values, strict=True)
        return {field.name: each(part) for field, each, part in pairs}

    return convert


def _list_convert(element: Convert | None) -> Convert:
    """Arrow would take the letters of a text, the bytes of a buffer, and the keys of a dict."""
    each = _or_null(element)

    def convert(values: Any) -> list[Any]:
        if isinstance(values, str | bytes | bytearray | memoryview | Mapping):
            raise ValueError(f"a {type(values).__name__} is not a list")
        return [each(value) for value in values]

    return convert


def _map_convert(key: Convert | None, value: Convert | None) -> Convert:
    of_key, of_value = _or_null(key), _or_null(value)
    return lambda items: [(of_key(k), of_value(v)) for k, v in _pairs(items).items()]


def _pairs(items: Any) -> dict[Any, Any]:
    """Python would take a text of two letters for a pair, and the last of two equal keys."""
    if isinstance(items, Mapping):
        return dict(items)
    pairs = isinstance(items, list | tuple) and all(isinstance(pair, tuple) for pair in items)
    if not pairs or len(dict(items)) < len(items):
        raise ValueError("a map is a dict, or a list of tuples, each with another key")
    return dict(items)


# ---- Columns of record batches that Arrow would cast, and make other values of -------------------

_KINDS: dict[str, tuple[Callable[[pa.DataType], bool], ...]] = {
    "boolean": (pa.types.is_boolean,),
    "number": (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal),
    "text": (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view),
    "binary": (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view),
    "duration": (pa.types.is_duration,),
    "time": (pa.types.is_date, pa.types.is_time, pa.types.is_timestamp),
}


def _another_value(given: pa.DataType, wanted: pa.DataType) -> str | None:
    """Why a column must not be cast so; None if it may, or Arrow will say that it cannot."""
    if pa.types.is_dictionary(given):
        return _another_value(given.value_type, wanted)
    if isinstance(given, pa.BaseExtensionType):  # of which Arrow casts what it is stored as
        return _another_value(given.storage_type, wanted)
    if pa.types.is_list_view(given) or pa.types.is_large_list_view(given):
        return f"{given} is a view of lists, and Arrow loses some in a cast; make lists of it"
    if pa.types.is_struct(given) and pa.types.is_struct(wanted):
        has_names, names = [[field.name for field in kind] for kind in (given, wanted)]
        if sorted(has_names) != sorted(names):  # Arrow would leave out, and fill up with nulls
            return f"a struct has {has_names}, but the schema {names}"
    if pa.types.is_nested(given) and pa.types.is_map(given) != pa.types.is_map(wanted):
        return f"{given} is not {wanted}"  # to Arrow a map is a list of structs
    if pa.types.is_nested(wanted):
        reasons = (_another_value(*pair) for pair in _inner(given, wanted))
        return next(filter(None, reasons), None)
    has, needs = _kind(given), _kind(wanted)
    if has and needs and has != needs and {has, needs} != {"text", "binary"}:
        return f"a {has} is not a {needs}, and this is {given}; cast it before you add it"
    if has and needs and _is_cut(given, wanted):
        return f"{given} would silently be cut to {wanted}; cast it before you add it"
    if has == "time" and getattr(wanted, "tz", None) and not getattr(given, "tz", None):
        return (
            f"{given} has no zone, so it may be any moment; say which zone it is in: "
            '`pc.assume_timezone(column, "UTC")`'
        )
    if has == "time" and getattr(given, "tz", None) and not getattr(wanted, "tz", None):
        return (
            f"{given} has a zone, and the column none; say what a clock shows there: "
            "`pc.local_timestamp(column)`"
        )
    return None


def _is_cut(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Arrow checks what else it casts."""
    if pa.types.is_timestamp(given):
        return not pa.types.is_timestamp(wanted)
    kinds = [pa.types.is_floating, pa.types.is_decimal]
    return any(one(given) and other(wanted) for one, other in permutations(kinds))


def _kind(given: pa.DataType) -> str | None:
    return next((name for name, kinds in _KINDS.items() if any(is_(given) for is_ in kinds)), None)


def _inner(given: pa.DataType, wanted: pa.DataType) -> Iterable[tuple[pa.DataType, pa.DataType]]:
    """The types within two types, pair by pair, where they have the same form."""
    if pa.types.is_map(given) and pa.types.is_map(wanted):
        return [(given.key_type, wanted.key_type), (given.item_type, wanted.item_type)]
    if pa.types.is_struct(given) and pa.types.is_struct(wanted):
        return [(given.field(each.name).type, each.type) for each in wanted]
    if hasattr(given, "value_type") and pa.types.is_list(wanted):
        return [(given.value_type, wanted.value_type)]
    return []


def _infinities(array: pa.Array) -> int:
    """How many there are, also within lists, maps and structs: a cast to FLOAT may make some."""
    kind = array.type
    if pa.types.is_floating(kind):
        return int(pc.sum(pc.is_inf(array)).as_py() or 0)
    if pa.types.is_map(kind):
        return _infinities(array.keys) + _infinities(array.items)
    if pa.types.is_struct(kind):
        return sum(map(_infinities, array.flatten()))
    if hasattr(kind, "value_type") and not pa.types.is_dictionary(kind):
        return _infinities(array.flatten())
    return 0
