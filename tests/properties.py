"""Property tests: values of every Spark type, and the number of examples."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
    TimeType,
)

Values = st.SearchStrategy[Any]

# Values of a partition column, which name folders.
IN_FOLDERS = [*"%/ä:?*'\"\\\n ", "a b", "%20", "a/b", "日本", "..", "a=b", None]

EXAMPLES = pytest.mark.parametrize(
    "examples",
    [pytest.param(100, id="few"), pytest.param(2_000, marks=pytest.mark.soak, id="many")],
)


def holds(check: Callable[..., None], examples: int, *strategies: Values) -> None:
    """Call `check` with that many examples, the same ones in each run."""
    how = settings(
        max_examples=examples,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )
    how(given(st.tuples(*strategies))(lambda found: check(*found)))()


# ---- Types and their values ----------------------------------------------------------------------


def _whole(bits: int) -> Values:
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    return st.sampled_from([low, high, 0, -1]) | st.integers(low, high)


def _decimals(kind: DecimalType) -> Values:
    most = 10**kind.precision - 1
    whole = st.sampled_from([most, -most, 0]) | st.integers(-most, most)
    return whole.map(lambda number: Decimal(f"{number}E-{kind.scale}"))


# Spark's years, less a day at either end for zones far from UTC.
FIRST, LAST = datetime(1, 1, 2), datetime(9999, 12, 30, 23, 59, 59, 999_999)
ZONES = st.sampled_from([UTC, timezone(timedelta(hours=14)), timezone(timedelta(minutes=-461))])
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=9) | st.sampled_from(
    ["", "\0", "NULL", "\\N", "null", '"', "'", "\\", "{}", "{,}", "\r\n", "\t,;", "\ufeff", "😀"]
)
SPANS = st.timedeltas(timedelta(days=-100_000_000), timedelta(days=100_000_000))

FLAT: dict[DataType, Values] = {
    BooleanType(): st.booleans(),
    ByteType(): _whole(8),
    ShortType(): _whole(16),
    IntegerType(): _whole(32),
    LongType(): _whole(64),
    FloatType(): st.floats(width=32),
    DoubleType(): st.floats(),
    DecimalType(38, 18): _decimals(DecimalType(38, 18)),
    DecimalType(10, 0): _decimals(DecimalType(10, 0)),
    DecimalType(5, 5): _decimals(DecimalType(5, 5)),
    StringType(): TEXTS,
    BinaryType(): st.binary(max_size=9),
    DateType(): st.dates(),
    TimestampType(): st.datetimes(FIRST, LAST, timezones=ZONES),
    TimestampNTZType(): st.datetimes(),
    DayTimeIntervalType(): SPANS,
    TimeType(): st.times(),
}
KEYS: list[DataType] = [StringType(), LongType(), DateType(), BinaryType()]


def structs(inner: st.SearchStrategy[DataType], most: int = 3) -> st.SearchStrategy[StructType]:
    """Return types of rows with odd column names."""
    names = st.sampled_from(["a", "b c", "`", "ä.b", "A"])
    fields = st.lists(st.tuples(names, inner), min_size=1, max_size=most, unique_by=lambda f: f[0])

    def struct(pairs: list[tuple[str, DataType]]) -> StructType:
        made = StructType()
        for name, kind in pairs:
            made.add(name, kind)
        return made

    return fields.map(struct)


def _nested(inner: st.SearchStrategy[DataType]) -> st.SearchStrategy[DataType]:
    maps = st.builds(MapType, st.sampled_from(KEYS), inner)
    return st.builds(ArrayType, inner) | maps | structs(inner)


KINDS: st.SearchStrategy[DataType] = st.recursive(
    st.sampled_from(list(FLAT)), _nested, max_leaves=4
)


def values(kind: DataType, null: bool = True) -> Values:
    """Return values for a column of this type, as Python objects."""
    return st.none() | _values(kind) if null else _values(kind)


def _values(kind: DataType) -> Values:
    if isinstance(kind, ArrayType):
        return st.lists(values(kind.elementType), max_size=3)
    if isinstance(kind, MapType):
        return st.dictionaries(values(kind.keyType, null=False), values(kind.valueType), max_size=3)
    if isinstance(kind, StructType):
        return st.fixed_dictionaries({field.name: values(field.dataType) for field in kind})
    return FLAT[kind]


def typed(kinds: st.SearchStrategy[DataType] = KINDS, rows: int = 3) -> Values:
    """Return types, each with some of its values."""
    return kinds.flatmap(
        lambda kind: st.tuples(st.just(kind), st.lists(values(kind), min_size=1, max_size=rows))
    )


ANYTHING = st.one_of(
    *FLAT.values(), TEXTS, st.lists(TEXTS, max_size=2), st.dictionaries(TEXTS, TEXTS, max_size=2)
)


# ---- Comparing values ----------------------------------------------------------------------------


def same(one: Any, other: Any) -> bool:
    """Return whether two values have the same type and content; zones of timestamps may differ."""
    if isinstance(one, float) and isinstance(other, float):
        signs = math.copysign(1, one) == math.copysign(1, other)
        return (math.isnan(one) and math.isnan(other)) or (one == other and signs)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, datetime) and isinstance(other, datetime):
        return (one.tzinfo is None) == (other.tzinfo is None) and one == other
    return _kind_of(one) == _kind_of(other) and bool(one == other)


def _kind_of(value: Any) -> type:
    kinds = (bool, int, float, Decimal, str, bytes, datetime, date, time, timedelta, dict, list)
    return next((kind for kind in kinds if isinstance(value, kind)), type(value))
