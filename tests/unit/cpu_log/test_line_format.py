"""Lines of the CPU log: any item that is written is read back unchanged."""

from __future__ import annotations

import datetime as dt
import decimal
import random

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import DoubleType, StringType, StructType, TimestampType

from tutorial_pkg.connectors.cpu_log.line_format import LINE_SCHEMA, format_lines, parse_lines

MILLIS, USAGE = 1583309377078, 0.502024
AWKWARD = [
    "plain",
    "",
    None,
    "a,b,,c,",
    "\"quoted\" 'twice'",
    "two\nlines",
    "\r\n",
    "\\",
    "\\n",
    "\\\\n",
    "\\\\\n",
    "\\N",
    "\\\\N",
    "ends with \\",
    "\0",
    "\ufeff\u2028\x85\x0b\x0c\x1c",
    "😀 日本 é",
    " spaces ",
]


def rows(*items: str | None) -> pa.RecordBatch:
    return pa.record_batch({"item": pa.array(items, pa.string())})


def written(batch: pa.RecordBatch) -> str:
    return format_lines(batch, MILLIS, USAGE).decode()


def items_of(text: str) -> list[str | None]:
    """Parse a file's text, which is split at newlines only."""
    lines = text.split("\n")
    assert lines.pop() == "", "the last line ends with a newline"
    return parse_lines(pa.array(lines, pa.string())).column("item").to_pylist()


def test_line_has_the_documented_format() -> None:
    item = "SimpleEvent(timestamp=10:09:37.000, sequence=2900)"
    line = f"1583309377078,0.502024,{item}"
    assert written(rows(item)) == f"{line}\n"
    assert parse_lines(pa.array([line])).to_pylist() == [
        {
            "timestamp": dt.datetime(2020, 3, 4, 8, 9, 37, 78000, dt.UTC),
            "cpu_usage": 0.502024,
            "item": item,
        }
    ]


@pytest.mark.parametrize(("usage", "text"), [(0, "0.000000"), (1, "1.000000"), (1 / 3, "0.333333")])
def test_usage_has_six_decimals(usage: float, text: str) -> None:
    assert format_lines(rows("a"), 0, usage) == f"0,{text},a\n".encode()


@pytest.mark.parametrize(
    ("item", "text"),
    [("a\nb", r"a\nb"), ("a\rb", r"a\rb"), ("a\\b", r"a\\b"), (None, r"\N"), ("\\N", r"\\N")],
)
def test_escapes_are_the_documented_ones(item: str | None, text: str) -> None:
    assert written(rows(item)) == f"1583309377078,0.502024,{text}\n"


@pytest.mark.parametrize("item", AWKWARD)
def test_awkward_item_is_read_back(item: str | None) -> None:
    assert items_of(written(rows(item))) == [item]


def test_awkward_items_together_are_read_back() -> None:
    assert items_of(written(rows(*AWKWARD))) == AWKWARD


def test_random_items_are_read_back() -> None:
    chance = random.Random(4)
    items = ["".join(chance.choices("\\nrN\n\r,a", k=chance.randrange(12))) for _ in range(20_000)]
    assert items_of(written(rows(*items))) == items


def test_slice_is_written_alone() -> None:
    assert items_of(written(rows(*AWKWARD).slice(3, 5))) == AWKWARD[3:8]


def test_no_rows_are_no_bytes() -> None:
    assert format_lines(rows(), MILLIS, USAGE) == b""


def test_several_columns_become_a_row() -> None:
    batch = pa.record_batch(
        {"name": ["a\n", None], "count": pa.array([1, 2]), "is, it": [True, None]}
    )
    assert format_lines(batch, 0, 0) == (
        b"0,0.000000,Row(name=a\\n, count=1, is, it=true)\n"
        b"0,0.000000,Row(name=null, count=2, is, it=null)\n"
    )


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (7, pa.int8(), "7"),
        (-(2**63), pa.int64(), "-9223372036854775808"),
        (False, pa.bool_(), "false"),
        (0.1, pa.float64(), "0.1"),
        (decimal.Decimal("1.50"), pa.decimal128(10, 2), "1.50"),
        (dt.date(2020, 3, 4), pa.date32(), "2020-03-04"),
        (dt.datetime(2020, 3, 4, 8, 9), pa.timestamp("us", "UTC"), "2020-03-04 08:09:00.000000Z"),
        (dt.datetime(2020, 3, 4, 8, 9), pa.timestamp("us"), "2020-03-04 08:09:00.000000"),
    ],
)
def test_other_types_appear_as_arrow_prints_them(
    value: object, kind: pa.DataType, text: str
) -> None:
    batch = pa.record_batch({"item": pa.array([value, None], kind)})
    assert items_of(written(batch)) == [text, None]


@pytest.mark.parametrize(
    "line",
    ["", "no comma", "1,2", "1583309377078,0.5", "x,0.5,item", "1,x,item", "-1,0.5,a", "1,.5,a\\n"],
)
def test_line_of_another_format_is_kept_whole(line: str) -> None:
    good = "1,0.5,a\\n"
    rows_read = parse_lines(pa.array([good, line], pa.string())).to_pylist()
    assert rows_read[0]["item"] == "a\n"
    assert rows_read[1] == {"timestamp": None, "cpu_usage": None, "item": line}


def test_time_after_year_9999_is_refused() -> None:
    """A time in microseconds would be in the year 33658, and `collect` would fail."""
    lines = ["253402300799999,0.5,last", "253402300800000,0.5,past", "999999999999999,0.5,far"]
    rows = parse_lines(pa.array(lines)).to_pylist()
    assert rows[0]["timestamp"] == dt.datetime(9999, 12, 31, 23, 59, 59, 999000, dt.UTC)
    assert rows[0]["item"] == "last"
    nothing = {"timestamp": None, "cpu_usage": None}
    assert rows[1:] == [{**nothing, "item": line} for line in lines[1:]]


def test_timestamp_is_in_the_zone_of_the_session() -> None:
    at = pa.array([1_600_000_000_000_000], pa.timestamp("us", "Europe/Berlin"))
    assert items_of(written(pa.record_batch({"time": at}))) == ["2020-09-13 14:26:40.000000+0200"]
    unknown = pa.array([0], pa.timestamp("us", "PST"))
    with pytest.raises(pa.ArrowInvalid, match="PST"):
        written(pa.record_batch({"time": unknown}))


def test_no_lines_are_no_rows() -> None:
    assert parse_lines(pa.array([], pa.string())).num_rows == 0


def test_schema_is_what_spark_expects() -> None:
    schema = (
        StructType()
        .add("timestamp", TimestampType())
        .add("cpu_usage", DoubleType())
        .add("item", StringType())
    )
    assert parse_lines(pa.array(["1,0.5,a"])).schema.equals(to_arrow_schema(schema, timezone="UTC"))
    assert LINE_SCHEMA.equals(to_arrow_schema(schema, timezone="UTC"))
