"""Bytes to lines to event times, against an oracle in plain Python."""

from __future__ import annotations

import pickle
import random
from datetime import UTC, datetime
from types import SimpleNamespace

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StringType, StructField, StructType, TimestampType

from tutorial_pkg.core.line_options import lines_schema
from tutorial_pkg.core.lines import (
    event_times,
    lines_batch,
    to_lines,
    with_event_time,
)

PIECES = [
    *(b"\n", b"\r", b"\r\n", b"\x00", b",", b"a", b"1", b""),
    *(
        b"\xff",
        b"\xc3",
        b"\xa9",
        b"\xed\xa0\x80",
        b"\xf0\x9f",
        b"\xf0\x9f\x98\x80",
        b"\xef\xbb\xbf",
    ),
]


def oracle(data: bytes) -> list[str]:
    return [line.removesuffix(b"\r").decode(errors="replace") for line in data.split(b"\n")[:-1]]


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"\n", [""]),
        (b"a\n\nb\n", ["a", "", "b"]),
        (b"a\r\n\r\n", ["a", ""]),
        (b"a\r\r\n", ["a\r"]),
        (b"a\rb\n", ["a\rb"]),
        (b"\x00\n\xef\xbb\xbfx\n", ["\x00", "\ufeffx"]),
        ("é😀\n".encode(), ["é😀"]),
        (b"ok\n\xff\xc3\n\xa9\n", ["ok", "\ufffd\ufffd", "\ufffd"]),
    ],
)
def test_lines(data, lines):
    assert to_lines(data).to_pylist() == lines == oracle(data)


def test_random_bytes_split_as_in_python():
    chance = random.Random(20)
    for _ in range(3000):
        data = b"".join(chance.choices(PIECES, k=chance.randrange(15))) + b"\n"
        assert to_lines(data).to_pylist() == oracle(data), data
        assert to_lines(memoryview(data)).to_pylist() == oracle(data), data


def test_the_array_is_valid_for_spark():
    lines = to_lines(b"a\xffb\n\xc3\xa9\n")
    lines.validate(full=True)
    assert lines.type == pa.string()


def test_partial_line_is_an_error():
    with pytest.raises(ValueError, match="expects whole lines: the last byte must be a newline"):
        to_lines(b"a\nb")


@pytest.mark.parametrize(
    ("line", "millis"),
    [
        ("1583309377078,0.5,x", 1583309377078),
        ("0,", 0),
        ("000000000000001,", 1),
        ("253402300799999,", 253402300799999),
        ("253402300800000,", None),
        ("0000000000000001,", None),
        ("99999999999999999999,", None),
        *((text, None) for text in ("", ",", "x,1", "12", "-1,", "+1,", " 1,", "1 ,", "1.5,")),
        *((text, None) for text in ("٣,", "é,1", "12345678901234é,", "1\x00,")),
    ],
)
def test_event_time_is_the_digits_before_the_first_comma(line, millis):
    expected = None if millis is None else datetime.fromtimestamp(millis / 1000, UTC)
    read = event_times(pa.array([line])).to_pylist()[0]
    assert (read is None) == (expected is None)
    assert read is None or abs((read - expected).total_seconds()) < 0.001


def test_event_times_of_a_slice():
    lines = pa.array(["x", "5,", "6,", "y"])
    assert event_times(lines.slice(2, 2)).cast(pa.int64()).to_pylist() == [6000, None]
    assert len(event_times(lines.slice(0, 0))) == 0


def batch_of(*lines: str) -> pa.RecordBatch:
    number = pa.array(range(len(lines)), pa.int32())
    return pa.RecordBatch.from_arrays([pa.array(lines, pa.string()), number], ["value", "n"])


def test_permissive_keeps_a_malformed_line_with_null():
    rows = with_event_time(batch_of("1,", "bad", "2,"), "PERMISSIVE").to_pydict()
    assert rows["value"] == ["1,", "bad", "2,"]
    assert [time is None for time in rows["event_time"]] == [False, True, False]


def test_dropmalformed_drops_the_whole_row():
    rows = with_event_time(batch_of("1,", "bad", "2,"), "DROPMALFORMED").to_pydict()
    assert (rows["value"], rows["n"]) == (["1,", "2,"], [0, 2])


def test_failfast_quotes_the_first_malformed_line():
    with pytest.raises(ValueError) as error:
        with_event_time(batch_of("1,", "bad\n", "worse"), "FAILFAST")
    assert str(error.value) == (
        "eventTime=millis_prefix: no epoch milliseconds before the first comma of line 'bad\\n'; "
        "use mode=PERMISSIVE to get a null event_time, or mode=DROPMALFORMED to drop such lines"
    )


def test_failfast_shortens_the_quote():
    with pytest.raises(ValueError) as error:
        with_event_time(batch_of("q" * 100_000), "FAILFAST")
    assert "'" + "q" * 120 + "...'" in str(error.value)


def test_failfast_passes_good_lines():
    assert with_event_time(batch_of("1,", "2,"), "FAILFAST").num_rows == 2


VALUE = StructField("value", StringType())
EVENT_TIME = StructField("event_time", TimestampType())


@pytest.mark.parametrize("mode", ["PERMISSIVE", "DROPMALFORMED", "FAILFAST"])
@pytest.mark.parametrize(
    ("event_time", "ddl", "fields"),
    [
        (None, "value STRING", [VALUE]),
        ("millis_prefix", "value STRING, event_time TIMESTAMP_LTZ", [VALUE, EVENT_TIME]),
    ],
)
def test_batches_have_sparks_schema(event_time, ddl, fields, mode):
    options = SimpleNamespace(eventTime=event_time, mode=mode)
    expected = to_arrow_schema(StructType(fields), timezone="UTC")
    assert lines_schema(options) == ddl
    for lines in (to_lines(b""), to_lines(b"1,\n2,\n")):
        batch = lines_batch(lines, options)
        assert batch.schema.equals(expected)
        assert pickle.loads(pickle.dumps(batch)).equals(batch)
