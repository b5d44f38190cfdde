"""Lines of the CPU log: any item that is written is read back unchanged."""

from __future__ import annotations

import datetime as dt
import decimal
import random

import pyarrow as pa
import pytest

from tutorial_pkg.connectors.cpu_log.line_format import format_lines, parse_lines

MILLIS, USAGE = 1583309377078, 0.502024
AWKWARD = [
    *("plain", "", None, "a,b,,c,", "\"quoted\" 'twice'", "two\nlines", "\r\n", " spaces "),
    *("\\", "\\n", "\\\\n", "\\\\\n", "\\N", "\\\\N", "ends with \\"),
    *("\0", "\ufeff\u2028\x85\x0b\x0c\x1c", "😀 日本 é"),
]
AT = dt.datetime(2020, 3, 4, 8, 9)


def written(items: pa.Array | list[str | None]) -> str:
    return format_lines(pa.record_batch({"item": pa.array(items)}), MILLIS, USAGE).decode()


def items_of(text: str) -> list[str | None]:
    """Parse a file's text, which is split at newlines only."""
    lines = text.split("\n")
    assert lines.pop() == "", "the last line ends with a newline"
    return parse_lines(pa.array(lines, pa.string())).column("item").to_pylist()


def test_line_has_the_documented_format() -> None:
    item = "SimpleEvent(timestamp=10:09:37.000, sequence=2900)"
    line = f"1583309377078,0.502024,{item}"
    assert written([item]) == f"{line}\n"
    [row] = parse_lines(pa.array([line])).to_pylist()
    at = dt.datetime(2020, 3, 4, 8, 9, 37, 78000, dt.UTC)
    assert row == {"timestamp": at, "cpu_usage": 0.502024, "item": item}
    batch = pa.record_batch({"item": ["a"]})
    assert format_lines(batch, 0, 1) == b"0,1.000000,a\n"
    assert format_lines(batch.slice(1), 0, 1) == b""


def test_escapes_are_the_documented_ones() -> None:
    items, texts = ["a\nb", "a\rb", "a\\b", None, "\\N"], [r"a\nb", r"a\rb", r"a\\b", r"\N", r"\\N"]
    assert written(items) == "".join(f"1583309377078,0.502024,{text}\n" for text in texts)


def test_awkward_items_are_read_back() -> None:
    for item in AWKWARD:
        assert items_of(written(pa.array([item], pa.string()))) == [item]
    assert items_of(written(AWKWARD)) == AWKWARD
    assert items_of(written(pa.array(AWKWARD).slice(3, 5))) == AWKWARD[3:8]
    chance = random.Random(4)
    items = ["".join(chance.choices("\\nrN\n\r,a", k=chance.randrange(12))) for _ in range(20_000)]
    assert items_of(written(items)) == items


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
        (-(2**63), pa.int64(), "-9223372036854775808"),
        (False, pa.bool_(), "false"),
        (0.1, pa.float64(), "0.1"),
        (decimal.Decimal("1.50"), pa.decimal128(10, 2), "1.50"),
        (dt.date(2020, 3, 4), pa.date32(), "2020-03-04"),
        (AT, pa.timestamp("us", "UTC"), "2020-03-04 08:09:00.000000Z"),
        (AT, pa.timestamp("us", "Europe/Berlin"), "2020-03-04 09:09:00.000000+0100"),
        (AT, pa.timestamp("us"), "2020-03-04 08:09:00.000000"),
    ],
)
def test_other_types_appear_as_arrow_prints_them(
    value: object, kind: pa.DataType, text: str
) -> None:
    assert items_of(written(pa.array([value, None], kind))) == [text, None]


@pytest.mark.parametrize(
    "line",
    [
        *("", "no comma", "1,2", "1583309377078,0.5", "x,0.5,item", "1,x,item", "-1,0.5,a"),
        "253402300800000,0.5,a time after the year 9999, at which `collect` would fail",
    ],
)
def test_line_of_another_format_is_kept_whole(line: str) -> None:
    valid = "253402300799999,0.5,a\\n"
    first, second = parse_lines(pa.array([valid, line], pa.string())).to_pylist()
    assert first["timestamp"] == dt.datetime(9999, 12, 31, 23, 59, 59, 999000, dt.UTC)
    assert first["item"] == "a\n"
    assert second == {"timestamp": None, "cpu_usage": None, "item": line}
