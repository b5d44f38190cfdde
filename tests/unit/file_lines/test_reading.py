"""What tasks read: files cut into ranges, with every line in one range, however long it is."""

from __future__ import annotations

import os
import random

import pytest

from tests.unit.file_lines.driving import Tailing, append, read_all
from tutorial_pkg.connectors.file_lines import line_file, reading
from tutorial_pkg.connectors.file_lines.data_source import FileLinesDataSource

BOTH = pytest.mark.parametrize("read", [read_all, lambda path: Tailing(path).batch()])
MOST = 1 << 20  # the least that option `maxLineBytes` allows


def part_of(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """Let tasks take parts of `size` bytes."""
    monkeypatch.setattr(reading, "_LEAST_PART_BYTES", size)
    monkeypatch.setattr(reading, "_MOST_PART_BYTES", size)


@BOTH
def test_byte_order_mark_and_carriage_returns(tmp_path, read):
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbfone\r\n\n\xef\xbb\xbfthree\n")
    assert read(tmp_path / "a.txt") == ["one", "", "\ufeffthree"]


@BOTH
def test_utf_16_is_refused_by_name(tmp_path, read):
    (tmp_path / "a.txt").write_text("one\ntwo\n", encoding="utf-16")
    with pytest.raises(ValueError, match=r"a\.txt is encoded in UTF-16"):
        read(tmp_path)


@pytest.mark.parametrize("partition_bytes", [1, 2, 3, 7, 20, 1000])
def test_each_line_is_read_once_however_split(tmp_path, monkeypatch, partition_bytes):
    part_of(monkeypatch, partition_bytes)
    monkeypatch.setattr(line_file, "CHUNK_BYTES", 16)
    monkeypatch.setattr(line_file, "_SEARCH_BYTES", 4)
    chance = random.Random(partition_bytes)
    lines = ["x" * chance.choice([0, 1, 2, 3, 30, 90]) + str(i) for i in range(60)]
    for name, end in (("a", "\n"), ("b", "")):
        (tmp_path / name).write_text("\n".join(lines) + end)
    assert sorted(read_all(tmp_path)) == sorted(lines * 2)
    assert sorted(Tailing(tmp_path).batch()) == sorted(lines + lines[:-1])


def test_big_files_are_split(tmp_path, monkeypatch):
    part_of(monkeypatch, 100)
    (tmp_path / "big").write_text("123456789\n" * 25)
    for i in range(8):
        (tmp_path / f"small{i}").write_text("123456789\n")
    reader = FileLinesDataSource({"path": str(tmp_path)}).reader(schema=None)
    assert [len(part.value) for part in reader.partitions()] == [1, 1, 6, 3]


def test_all_cores_share_a_big_file(tmp_path, monkeypatch):
    (tmp_path / "big").touch()
    for mebibytes, cores, tasks in ((4, 8, 1), (40, 64, 5), (1000, 2, 8)):
        monkeypatch.setattr(os, "cpu_count", lambda cores=cores: cores)
        os.truncate(tmp_path / "big", mebibytes << 20)
        reader = FileLinesDataSource({"path": str(tmp_path)}).reader(schema=None)
        assert len(reader.partitions()) == tasks


@pytest.mark.parametrize("before", [b"", b"short\n" * 300_000])
@pytest.mark.parametrize("after", [b"\n", b"\nmore\n"])
def test_the_limit_of_a_line_is_exact(tmp_path, caplog, before, after):
    log = tmp_path / "log"
    log.write_bytes(before + b"x" * MOST + after)
    assert max(map(len, read_all(log, maxLineBytes=str(MOST)))) == MOST
    log.write_bytes(before + b"x" * (MOST + 1) + after)
    with pytest.raises(ValueError, match=f"within {MOST} bytes from byte {len(before)}"):
        read_all(log, maxLineBytes=str(MOST))
    lines = (before + after[1:]).decode().split("\n")[:-1]
    assert Tailing(log, maxLineBytes=MOST).batch() == lines
    assert f"{log}: skipped a line of {MOST + 2} bytes at byte {len(before)}" in caplog.text


@pytest.mark.parametrize("limit", [{}, {"maxRowsPerTrigger": 1}, {"maxBytesPerTrigger": 5}])
def test_nuls_after_copytruncate_are_skipped(tmp_path, caplog, limit):
    """A writer that does not append leaves a hole where the truncated lines were."""
    log = tmp_path / "log"
    append(log, "one")
    tailing = Tailing(log, restarts=False, maxLineBytes=MOST, **limit)
    assert tailing.batch() == ["one"]
    os.truncate(log, 0)
    os.truncate(log, 3 * MOST)
    assert tailing.batch() == []
    append(log, "two", "three", "four")
    assert sorted(tailing.batch() + tailing.rest()) == ["four", "three"]
    assert f"{log}: skipped a line of {3 * MOST + 4} bytes at byte 0" in caplog.text
