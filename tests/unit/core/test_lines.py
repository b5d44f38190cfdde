"""Bytes to lines to event times, against an oracle in plain Python."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from types import SimpleNamespace

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StringType, StructField, StructType, TimestampType

from tutorial_pkg.core.line_options import lines_schema
from tutorial_pkg.core.lines import event_times, lines_batch, to_lines, with_event_time

PIECES = [
    *(b"\n", b"\r", b"\r\n", b"\x00", b",", b"a", b"1", b"", b"\xff", b"\xc3", b"\xa9"),
    *(b"\xed\xa0\x80", b"\xf0\x9f", b"\xf0\x9f\x98\x80", b"\xef\xbb\xbf"),
]


def test_random_bytes_split_as_in_python():
    chance = random.Random(20)
    for _ in range(3000):
        data = b"".join(chance.choices(PIECES, k=chance.randrange(15))) + b"\n"
        expected = data.split(b"\n")[:-1]
        lines = to_lines(memoryview(data))
        lines.validate(full=True)
        assert lines.to_pylist() == [
            line.removesuffix(b"\r").decode(errors="replace") for line in expected
        ]


def test_partial_line_is_an_error():
    with pytest.raises(ValueError, match="whole lines"):
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
def test_event_time_is_before_the_first_comma(line, millis):
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


@pytest.mark.parametrize(
    ("mode", "numbers"), [("PERMISSIVE", [0, 1, 2]), ("DROPMALFORMED", [0, 2])]
)
def test_mode_keeps_or_drops_malformed_lines(mode, numbers):
    rows = with_event_time(batch_of("1,", "bad", "2,"), mode).to_pydict()
    assert rows["n"] == numbers
    assert [time is None for time in rows["event_time"]] == [n == 1 for n in numbers]


def test_failfast_quotes_the_first_malformed_line():
    with pytest.raises(ValueError, match=r"of line 'bad\\n'; use mode="):
        with_event_time(batch_of("1,", "bad\n", "worse"), "FAILFAST")
    with pytest.raises(ValueError) as error:
        with_event_time(batch_of("q" * 100_000), "FAILFAST")
    assert "'" + "q" * 120 + "...'" in str(error.value)
    assert with_event_time(batch_of("1,", "2,"), "FAILFAST").num_rows == 2


VALUE = StructField("value", StringType())
EVENT_TIME = StructField("event_time", TimestampType())


@pytest.mark.parametrize(
    ("event_time", "ddl", "fields"),
    [
        (None, "value STRING", [VALUE]),
        ("millis_prefix", "value STRING, event_time TIMESTAMP_LTZ", [VALUE, EVENT_TIME]),
    ],
)
def test_batches_have_sparks_schema(event_time, ddl, fields):
    options = SimpleNamespace(eventTime=event_time, mode="DROPMALFORMED")
    assert lines_schema(options) == ddl
    for lines in (to_lines(b""), to_lines(b"1,\n2,\n")):
        expected = to_arrow_schema(StructType(fields), timezone="UTC")
        assert lines_batch(lines, options).schema.equals(expected)
