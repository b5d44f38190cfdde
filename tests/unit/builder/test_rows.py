"""Rows as people write them, and what Arrow makes of them."""

from __future__ import annotations

import re
from collections import UserDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import Row
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
    TimeType,
    VariantType,
    VariantVal,
)

from tutorial_pkg.builder.buffer import Buffer
from tutorial_pkg.builder.rows import RowPacker

PAIR = StructType().add("number", LongType()).add("text", StringType())
NUMBER = StructType().add("number", LongType())
NOON_IN_UTC = time(12, tzinfo=UTC)


@dataclass
class Pair:
    number: int
    text: str | None


class Turned(NamedTuple):
    """Goes by its names, as all that has some."""

    text: str
    number: int


class Unlike(NamedTuple):
    """Of names that no column has: so it goes by places."""

    n: int
    name: str


class Renamed(NamedTuple):
    """Of which one column is called otherwise, and all are in another order."""

    name: str
    number: int


class Capital(NamedTuple):
    """A database's names."""

    TEXT: str
    NUMBER: int


def packed(schema: StructType, *rows: Any) -> list[dict[str, Any]]:
    return RowPacker(schema).pack(rows).to_pylist()


@pytest.mark.parametrize(
    "row",
    [
        *((1, "a"), Row(1, "a"), Row(text="a", number=1), {"text": "a", "number": 1}),
        *(Pair(1, "a"), Turned("a", 1), Unlike(1, "a")),
    ],
)
def test_a_row_is_a_tuple_a_row_a_dict_or_a_dataclass(row: Any) -> None:
    assert packed(PAIR, row, (2, None)) == [
        {"number": 1, "text": "a"},
        {"number": 2, "text": None},
    ]


def test_with_one_column_a_row_is_its_value() -> None:
    assert packed(NUMBER, 1, (2,), None, {"number": 4}) == [{"number": n} for n in (1, 2, None, 4)]
    listed = StructType().add("list", ArrayType(LongType()))
    assert packed(listed, [1, 2], [], None) == [{"list": [1, 2]}, {"list": []}, {"list": None}]


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ((1,), "row (1,) does not fit the columns ['number', 'text']; add a tuple of 2, a dict"),
        ([1, "a"], "row [1, 'a'] does not fit the columns"),
        ("a", "row 'a' does not fit the columns"),
        (("a", "a"), "column `number` BIGINT cannot hold 'a': "),
        ((2**63, "a"), "column `number` BIGINT cannot hold 9223372036854775808: "),
        ((1, 1), "column `text` STRING cannot hold 1: "),
        ({"nummer": 1}, "row {'nummer': 1} has ['nummer'], but the columns are ['number', 'text']"),
        (Renamed("a", 1), "row {'name': 'a', 'number': 1} has ['name'], but the columns are"),
        (Capital("a", 1), "row {'TEXT': 'a', 'NUMBER': 1} has ['NUMBER', 'TEXT'], but the columns"),
    ],
)
def test_a_row_that_does_not_fit_is_quoted(row: Any, text: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(text)}"):
        packed(PAIR, (0, "fits"), row)


@pytest.mark.parametrize(
    ("kind", "value", "remedy"),
    [
        (LongType(), 1.5, "it is not a whole number; say `int(...)` or `round(...)`"),
        (LongType(), Decimal("1.5"), "it is not a whole number"),
        (ArrayType(LongType()), [1, 1.5], "it is not a whole number"),
        (
            TimestampType(),
            1.5e9,
            "a number is not a time; say `datetime.fromtimestamp(seconds, UTC)`",
        ),
        (TimestampNTZType(), 1_500_000_000, "a number is not a time"),
        (DateType(), 20_000, "a number is not a time"),
        (
            TimestampType(),
            "2026-11-22T09:00:00",
            "a text is not a time; say `datetime.fromisoformat(text)`",
        ),
        (DateType(), "2026-11-22", "a text is not a time"),
        (FloatType(), 1e300, "it is beyond FLOAT's range; make the column a DOUBLE"),
        (FloatType(), -(2**128), "it is beyond FLOAT's range"),
        (
            DateType(),
            datetime(2026, 11, 22, 9),
            "it has a time, and the column none; say `.da",
        ),
        (
            TimestampNTZType(),
            datetime(2026, 11, 22, 9, tzinfo=UTC),
            "it has a zone, and the column none; say `.replace(tzinfo=None)`",
        ),
        (
            TimestampType(),
            pd.Timestamp("2026-11-22T09:00:00.000000001Z"),
            "it has nanoseconds",
        ),
        (
            TimestampNTZType(),
            pd.Timestamp("2026-11-22T09:00:00.000000001"),
            "it has nanoseconds",
        ),
        (TimestampType(), date(2026, 11, 22), "a date is no moment; say `datetime.combine(day, "),
        (ArrayType(DateType()), [datetime(2026, 11, 22)], "it has a time, and the column none"),
        (DoubleType(), True, "a truth value is not a number; say `int(...)`"),
        (StringType(), b"a", "bytes are not text; say `.decode()`"),
        (BinaryType(), "a", "a text is not bytes; say `.encode()`"),
        (TimeType(), NOON_IN_UTC, "it has a zone, and the column none; say `.replace(tzinfo=None"),
        (DayTimeIntervalType(), 5, "a number is not an interval; say `timedelta(seconds=...)`"),
        (DayTimeIntervalType(), pd.Timedelta(1, "ns"), "it has nanoseconds, and the column none"),
        (LongType(), np.bool_(True), "it is not a whole number; say `int(...)`"),
        (LongType(), np.timedelta64(5_001, "ns"), "it is not a whole number; say `int(...)`"),
        (DateType(), np.bool_(True), "a number is not a time"),
        (TimeType(), np.bool_(True), "a number is not a time"),
        (TimeType(), np.datetime64("2026-11-22T09:00", "ns"), "it has a date, and the column none"),
        (TimeType(), pa.scalar(5_001, pa.time64("ns")), "Casting from time64[ns] to time64[us]"),
        (ArrayType(StringType()), "ab", "a str is not a list"),
        (ArrayType(StringType()), UserDict(a="b"), "a UserDict is not a list"),
        (ArrayType(LongType()), bytearray(b"ab"), "a bytearray is not a list"),
        (MapType(StringType(), StringType()), ["ab"], "a map is a dict, or a list of tuples, each"),
        (MapType(StringType(), LongType()), [("a", 1), ("a", 2)], "a map is a dict, or a list of"),
    ],
)
def test_what_arrow_would_take_for_another_value_is_refused(
    kind: DataType, value: object, remedy: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(f"cannot hold {value!r}: {remedy}")):
        packed(StructType().add("column", kind), (None,), (value,))


def test_null_in_a_column_that_has_none() -> None:
    schema = StructType().add("number", LongType(), nullable=False)
    with pytest.raises(ValueError, match=r"^column `number` BIGINT must not be null$"):
        packed(schema, 1, None)
    batch = pa.RecordBatch.from_arrays(
        [pa.array([None], pa.int64())], schema=RowPacker(schema).arrow_schema
    )
    with pytest.raises(ValueError, match=r"^column `number` BIGINT must not be null$"):
        RowPacker(schema).fit(batch)


def test_null_inside_of_what_must_have_none() -> None:
    """Arrow does not look whether there is one."""
    inner = StructType().add("n", LongType(), nullable=False)
    for kind, right, wrong in (
        (ArrayType(LongType(), containsNull=False), [[], [1]], [1, None]),
        (MapType(StringType(), LongType(), False), [{}, {"a": 1}], {"a": None}),
        (inner, [(1,), {"n": 2}], (None,)),
        (ArrayType(inner), [[None], [(1,)]], [(1,), (None,)]),
        (MapType(StringType(), inner), [{"a": None}], {"a": (None,)}),
    ):
        packer = RowPacker(StructType().add("in", kind))
        rows = [(value,) for value in [*right, None]]
        assert packer.fit(packer.pack(rows).slice(1)).num_rows == len(right)
        with pytest.raises(ValueError, match=r"column `in` .* has a null inside that must not be"):
            packer.pack([*rows, (wrong,)])


TWICE = StructType().add("a", LongType()).add("a", LongType())


@pytest.mark.parametrize(
    ("schema", "row"),
    [
        (PAIR, Row("number", "number")(1, 2)),
        (PAIR, Row("number", "text", "number")(1, "a", 2)),
        (StructType().add("inner", PAIR), (Row("text", "text")("a", "b"),)),
        (TWICE, {"a": 1}),
        (TWICE, Row("a", "a")(1, 2)),
    ],
)
def test_a_name_that_is_there_twice_names_no_value(schema: StructType, row: Any) -> None:
    """As after a join: one of the two values would be lost."""
    with pytest.raises(
        ValueError, match=r"row .* has values by name, and some names are equal: add"
    ):
        packed(schema, row)
    assert RowPacker(TWICE).pack([(1, 2)]).columns[1].to_pylist() == [2]  # by places


@pytest.mark.parametrize("row", [{"number": 0, "text": "a"}, Pair(0, "a")])
def test_a_row_may_be_filled_anew_for_the_next_one(row: Any) -> None:
    buffer = Buffer(RowPacker(PAIR))
    for number in range(3):
        if isinstance(row, Pair):
            row.number = number
        else:
            row["number"] = number
        buffer.add(row)
    [batch] = buffer.take()[0]
    assert batch.column("number").to_pylist() == [0, 1, 2]


def test_missing_keys_of_a_dict_are_null() -> None:
    assert packed(PAIR, {"text": "a"}) == [{"number": None, "text": "a"}]


INNER = StructType().add("number", LongType()).add("at", TimestampType())
AT = datetime(2026, 7, 1, 12, tzinfo=UTC)
TEXTS = pa.map_(pa.string(), pa.string())


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (BooleanType(), True, True),
        (IntegerType(), -1, -1),
        (DoubleType(), 1, 1.0),
        (DecimalType(10, 2), Decimal("1.5"), Decimal("1.50")),
        (BinaryType(), b"\0", b"\0"),
        (DateType(), date(2026, 1, 2), date(2026, 1, 2)),
        (TimestampType(), AT, AT),
        (TimestampType(), AT.astimezone().replace(tzinfo=None), AT),
        (TimestampType(), pd.Timestamp(AT.astimezone().replace(tzinfo=None)), AT),
        (LongType(), np.int32(7), 7),
        (TimestampNTZType(), datetime(2026, 1, 2), datetime(2026, 1, 2)),
        (DayTimeIntervalType(), timedelta(1), timedelta(1)),
        (MapType(StringType(), LongType()), {"a": 1}, [("a", 1)]),
        (ArrayType(TimestampType()), [AT, None], [AT, None]),
        (INNER, (1, AT), {"number": 1, "at": AT}),
        (INNER, {"at": AT}, {"number": None, "at": AT}),
        (ArrayType(INNER), [Row(number=1, at=AT)], [{"number": 1, "at": AT}]),
        (MapType(StringType(), INNER), {"a": (1, AT)}, [("a", {"number": 1, "at": AT})]),
        (VariantType(), VariantVal(b"v", b"m"), {"value": b"v", "metadata": b"m"}),
    ],
)
def test_every_type(kind: Any, value: Any, expected: Any) -> None:
    schema = StructType().add("value", kind)
    assert packed(schema, (value,), (None,)) == [{"value": expected}, {"value": None}]


def test_a_record_batch_is_put_in_order_and_cast() -> None:
    packer = RowPacker(PAIR)
    batch = pa.RecordBatch.from_pydict({"text": ["a"], "number": pa.array([1], pa.int32())})
    fitted = packer.fit(batch)
    assert fitted.schema.equals(packer.arrow_schema)
    assert fitted.to_pylist() == [{"number": 1, "text": "a"}]
    assert packer.fit(fitted) is fitted


@pytest.mark.parametrize(
    ("batch", "text"),
    [
        (
            {"number": [1]},
            "a record batch has the columns ['number'], but the schema ['number', 't",
        ),
        (
            {"number": ["x"], "text": ["a"]},
            "column `number` BIGINT of a record batch: a text is not a number, and this is string",
        ),
    ],
)
def test_a_record_batch_that_does_not_fit(batch: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(text)}"):
        RowPacker(PAIR).fit(pa.RecordBatch.from_pydict(batch))


NAIVE = datetime(2026, 7, 1, 12)
NO_ZONE = "timestamp[us] has no zone, so it may be any moment; say which zone it is in: `pc.assume"


FAR = pa.array([[("a", -1e39)]], pa.map_(pa.string(), pa.float64()))


@pytest.mark.parametrize(
    ("kind", "values", "reason"),
    [
        (TimestampType(), pa.array([NAIVE]), NO_ZONE),
        (TimestampType(), pa.array([date(2026, 7, 1)]), "date32[day] has no zone, so it may be"),
        (
            TimestampType(),
            pa.array([1_500_000_000]),
            "a number is not a time, and this is int64; cas",
        ),
        (TimestampNTZType(), pa.array([1_500_000_000]), "a number is not a time"),
        (DateType(), pa.array([20_000], pa.int32()), "a number is not a time"),
        (TimeType(), pa.array([20_000]), "a number is not a time"),
        (
            TimestampType(),
            pa.array(["2026-07-01T12:00:00Z"]),
            "a text is not a time, and this is str",
        ),
        (DateType(), pa.array(["2026-07-01"]), "a text is not a time"),
        (LongType(), pa.array(["1"]).dictionary_encode(), "a text is not a number"),
        (DoubleType(), pa.array(["1"], pa.large_string()), "a text is not a number"),
        (DecimalType(3, 1), pa.array(["1"]), "a text is not a number"),
        (BooleanType(), pa.array(["true"]), "a text is not a boolean"),
        (LongType(), pa.array([b"12"]), "a binary is not a number, and this is binary"),
        (DecimalType(3, 1), pa.array([b"1"], pa.large_binary()), "a binary is not a number"),
        (ArrayType(DoubleType()), pa.array([[b"1"]]), "a binary is not a number"),
        (BinaryType(), pa.array([1]), "a number is not a binary"),
        (LongType(), pa.array(["1"], pa.json_()), "a text is not a number"),
        (LongType(), pa.array([AT]), "a time is not a number"),
        (StringType(), pa.array([1]), "a number is not a text"),
        (
            DoubleType(),
            pa.array([Decimal("0.12345678901234567890")]),
            "decimal128(20, 20) would silently be cut to double",
        ),
        (ArrayType(TimestampType()), pa.array([[NAIVE]]), NO_ZONE),
        (
            MapType(StringType(), LongType()),
            pa.array([[("a", "1")]], TEXTS),
            "a text is not a number",
        ),
        (INNER, pa.array([{"at": NAIVE, "number": 1}]), NO_ZONE),
    ],
)
def test_a_column_that_arrow_would_take_for_another_value_is_refused(
    kind: DataType, values: pa.Array, reason: str
) -> None:
    text = f"column `value` {kind.simpleString().upper()} of a record batch: {reason}"
    batch = pa.RecordBatch.from_arrays([values], ["value"])
    with pytest.raises(ValueError, match=f"^{re.escape(text)}"):
        RowPacker(StructType().add("value", kind)).fit(batch)


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        (TimestampNTZType(), pa.array([NAIVE], pa.timestamp("ms")), NAIVE),
        (DoubleType(), pa.array([1]), 1.0),
        (LongType(), pa.array([1], pa.uint8()), 1),
        (LongType(), pa.array([None]), None),
        (StringType(), pa.array(["a"]).dictionary_encode(), "a"),
        (BinaryType(), pa.array(["a"]), b"a"),
        (ArrayType(LongType()), pa.array([[1]], pa.large_list(pa.int8())), [1]),
        (INNER, pa.array([{"at": AT, "number": 1}]), {"number": 1, "at": AT}),
    ],
)
def test_a_column_of_another_width_is_cast(
    kind: DataType, values: pa.Array, expected: object
) -> None:
    batch = pa.RecordBatch.from_arrays([values], ["value"])
    fitted = RowPacker(StructType().add("value", kind)).fit(batch)
    assert fitted.to_pylist() == [{"value": expected}]


def test_a_row_and_a_record_batch_agree_on_a_time_with_a_zone() -> None:
    buffer = Buffer(RowPacker(StructType().add("at", TimestampType())))
    at = AT.astimezone(ZoneInfo("Asia/Tokyo"))
    buffer.add(at)
    column = pa.array([at], pa.timestamp("ms", "+09:00"))
    buffer.add_batch(pa.RecordBatch.from_pydict({"at": column}))
    [row, batch], _ = buffer.take()
    assert row.equals(batch)
    assert row.to_pylist() == [{"at": AT}]


def test_whoever_says_so_gets_arrows_own_casts() -> None:
    batch = pa.RecordBatch.from_pydict({"number": ["7"]})
    assert RowPacker(NUMBER).fit(batch, strict=False).to_pylist() == [{"number": 7}]


def test_no_record_batch() -> None:
    with pytest.raises(ValueError, match=r"^`add_batch` takes a pyarrow.RecordBatch, got list$"):
        Buffer(RowPacker(PAIR)).add_batch([1])  # type: ignore[arg-type]


def test_buffer_keeps_the_order_of_rows_and_batches() -> None:
    buffer = Buffer(RowPacker(NUMBER))
    buffer.add(1, token="one")
    buffer.add(2)
    buffer.add_batch(pa.RecordBatch.from_pydict({"number": [3, 4]}), token="three and four")
    buffer.add(5)
    batches, tokens = buffer.take()
    assert [row["number"] for batch in batches for row in batch.to_pylist()] == [1, 2, 3, 4, 5]
    assert tokens == ["one", "three and four"]
    assert buffer.take() == ([], [])


def test_a_wrong_row_cannot_be_skipped_by_catching_its_error() -> None:
    """It comes when thousands of rows are packed; who goes on without them would lose them."""
    buffer = Buffer(RowPacker(NUMBER))
    for row in [*range(60_000), "wrong", *range(10_000)]:
        with suppress(ValueError):
            buffer.add(row, token=row)
    fitting = pa.RecordBatch.from_pydict({"number": [1]})
    again: list[Callable[[], Any]] = [
        lambda: buffer.add(1),
        lambda: buffer.add_batch(fitting),
        buffer.take,
    ]
    for call in again:
        with pytest.raises(ValueError, match=r"^column `number` BIGINT cannot hold 'wrong': "):
            call()


def test_a_wrong_record_batch_cannot_be_skipped_either() -> None:
    buffer = Buffer(RowPacker(NUMBER))
    with suppress(ValueError):
        buffer.add_batch(pa.RecordBatch.from_pydict({"nummer": [1]}), token="lost")
    with pytest.raises(ValueError, match="a record batch has the columns \\['nummer'\\], but"):
        buffer.take()


def test_many_rows_are_packed_on_the_way() -> None:
    buffer = Buffer(RowPacker(NUMBER))
    for number in range(200_000):
        buffer.add(number)
    assert sum(batch.num_rows for batch in buffer.packed()) > 100_000


FAR = pa.array([[("a", -1e39)]], pa.map_(pa.string(), pa.float64()))
VIEW = pa.array([[1], [2, 3]], pa.list_view(pa.int64()))
VIEWS = pa.array([[("a", [1])]], pa.map_(pa.string(), pa.large_list_view(pa.int64())))


@pytest.mark.parametrize(
    ("kind", "values", "reason"),
    [
        (FloatType(), pa.array([1e300]), "a number is beyond FLOAT's range"),
        (ArrayType(FloatType()), pa.array([[1e300]]), "a number is beyond FLOAT's range"),
        (MapType(StringType(), FloatType()), FAR, "a number is beyond FLOAT's range"),
        (TimestampNTZType(), pa.array([AT]), "has a zone, and the column none; say what a clock"),
        (DateType(), pa.array([NAIVE]), "timestamp[us] would silently be cut to date32[day]"),
        (TimeType(), pa.array([NAIVE]), "timestamp[us] would silently be cut to time64"),
        (DecimalType(5, 2), pa.array([1 / 3]), "double would silently be cut to decimal128(5, 2)"),
        (ArrayType(INNER), FAR, "map<string, double> is not list"),
        (ArrayType(LongType()), VIEW, "list_view<item: int64> is a view of lists, and Arrow loses"),
        (
            MapType(StringType(), ArrayType(LongType())),
            VIEWS,
            "large_list_view<item: int64> is a v",
        ),
        (INNER, pa.array([{"number": 1}]), "a struct has ['number'], but the schema ['number', 'a"),
    ],
)
def test_what_arrow_would_change_in_a_cast_is_refused(
    kind: DataType, values: pa.Array, reason: str
) -> None:
    batch = pa.RecordBatch.from_arrays([values], names=["value"])
    with pytest.raises(ValueError, match=f"^column `value` .*: .*{re.escape(reason)}"):
        RowPacker(StructType().add("value", kind)).fit(batch)
