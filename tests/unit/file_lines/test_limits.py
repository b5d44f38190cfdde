"""How much one batch takes: of rows, of bytes, of many files."""

from __future__ import annotations

from collections import Counter

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows

from tests.unit.file_lines.driving import Tailing, append, numbers, reader_of, rows


@pytest.mark.parametrize(
    ("lines", "limits", "batches"),
    [
        (numbers(1, 10), {"maxRowsPerTrigger": 4}, [4, 4, 2, 0]),
        (["aaaa", "bbbb", "cccc", "dddd"], {"maxBytesPerTrigger": 6}, [2, 2, 0]),  # whole lines
        (["a" * 50, "b" * 50], {"maxBytesPerTrigger": 1}, [1, 1, 0]),  # still moves on
        (numbers(1, 9), {"maxRowsPerTrigger": 2, "maxBytesPerTrigger": 50}, [2, 2, 2, 2, 1, 0]),
        (numbers(1, 3), {"maxRowsPerTrigger": 8, "maxBytesPerTrigger": 7}, [1, 1, 1, 0]),
    ],
)
def test_a_limit_is_kept(tmp_path, lines, limits, batches):
    append(tmp_path / "log", *lines)
    tailing = Tailing(tmp_path, **limits)
    found = [tailing.batch() for _ in batches]
    assert [len(batch) for batch in found] == batches
    assert [line for batch in found for line in batch] == lines


def test_a_limit_is_shared_by_all_files(tmp_path):
    for name, count in (("big", 100), ("small", 1), ("middle", 50)):
        append(tmp_path / name, *[name] * count)
    batch = Tailing(tmp_path, maxRowsPerTrigger=11).batch()
    assert Counter(batch) == {"small": 1, "middle": 5, "big": 5}


def test_reading_all_ignores_the_limits(tmp_path):
    append(tmp_path / "log", *numbers(1, 10))
    reader = reader_of(tmp_path, maxRowsPerTrigger="2")
    end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    assert len(rows(reader, reader.partitions(reader.initialOffset(), end))) == 10


@pytest.mark.parametrize(
    ("options", "limit"),
    [
        ({}, ReadAllAvailable()),
        ({"maxBytesPerTrigger": "7"}, ReadMaxBytes(7)),
        ({"maxRowsPerTrigger": "2"}, ReadMaxRows(2)),
    ],
)
def test_the_default_limit(tmp_path, options, limit):
    assert reader_of(tmp_path, **options).getDefaultReadLimit() == limit


def test_what_the_limit_leaves_is_reported(tmp_path):
    append(tmp_path / "log", *numbers(1, 10))
    reader = reader_of(tmp_path, maxRowsPerTrigger="2")
    assert reader.reportLatestOffset() is None
    reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    assert reader.reportLatestOffset() == {"unread": len("line N\n") * 7 + len("line 10\n")}
