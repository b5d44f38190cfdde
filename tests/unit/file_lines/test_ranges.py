"""What tasks read: files cut into ranges, so that every line comes once, however long it is."""

from __future__ import annotations

import logging
import os
import random

import pytest
from pyspark import cloudpickle

import tutorial_pkg
from tests.unit.file_lines.driving import Tailing, append, numbers, read_all, rows
from tutorial_pkg.connectors.file_lines import line_file, ranges
from tutorial_pkg.connectors.file_lines.data_source import FileLinesDataSource
from tutorial_pkg.connectors.file_lines.line_file import LineFile

TOO_LONG = r" has no newline within 1048576 bytes from byte \d+; raise option `maxLineBytes`"


def part_of(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """Let tasks take parts of `size` bytes."""
    monkeypatch.setattr(ranges, "_LEAST_PART_BYTES", size)
    monkeypatch.setattr(ranges, "_MOST_PART_BYTES", size)


def test_batch_reads_all_lines_and_a_last_one_without_newline(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbfone\r\n\n\xef\xbb\xbfthree\nhalf")
    assert read_all(tmp_path / "a.txt") == ["one", "", "\ufeffthree", "half"]


@pytest.mark.parametrize("partition_bytes", [1, 2, 3, 7, 20, 1000])
def test_however_a_file_is_split_each_line_comes_once(tmp_path, monkeypatch, partition_bytes):
    part_of(monkeypatch, partition_bytes)
    monkeypatch.setattr(line_file, "CHUNK_BYTES", 16)
    monkeypatch.setattr(line_file, "_SEARCH_BYTES", 4)
    chance = random.Random(partition_bytes)
    lines = ["x" * chance.choice([0, 1, 2, 3, 30, 90]) + str(i) for i in range(60)]
    for name, end in (("a", "\n"), ("b", "")):
        (tmp_path / name).write_text("\n".join(lines) + end)
    assert sorted(read_all(tmp_path)) == sorted(lines * 2)
    tailing = Tailing(tmp_path)
    assert sorted(tailing.batch()) == sorted(lines + lines[:-1])


def test_a_big_file_gets_several_tasks_and_small_files_share_one(tmp_path, monkeypatch):
    part_of(monkeypatch, 100)
    (tmp_path / "big").write_text("123456789\n" * 25)
    for i in range(8):
        (tmp_path / f"small{i}").write_text("123456789\n")
    reader = FileLinesDataSource({"path": str(tmp_path)}).reader(schema=None)
    assert [len(part.ranges) for part in reader.partitions()] == [1, 1, 2, 7]


@pytest.mark.parametrize(
    ("mebibytes", "cores", "tasks"), [(4, 8, 1), (40, 2, 2), (40, 64, 5), (1000, 2, 8)]
)
def test_all_cores_take_part_unless_the_parts_get_too_small(
    tmp_path, monkeypatch, mebibytes, cores, tasks
):
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    (tmp_path / "big").touch()
    os.truncate(tmp_path / "big", mebibytes << 20)
    reader = FileLinesDataSource({"path": str(tmp_path)}).reader(schema=None)
    assert len(reader.partitions()) == tasks


def test_a_line_without_end_is_an_error_not_a_memory_problem(tmp_path):
    endless = tmp_path / "endless"
    endless.write_bytes(b"ok\n" + b"x" * (3 << 20))
    with pytest.raises(ValueError, match=TOO_LONG):
        read_all(endless, maxLineBytes=str(1 << 20))
    assert len(read_all(endless)) == 2


@pytest.mark.parametrize("before", [b"", b"short\n" * 300_000])
@pytest.mark.parametrize("behind", [b"", b"\n", b"\nmore\n"])
def test_the_limit_of_a_line_is_exact(tmp_path, before, behind):
    most, log = 1 << 20, tmp_path / "log"
    log.write_bytes(before + b"x" * most + behind)
    assert max(map(len, read_all(log, maxLineBytes=str(most)))) == most
    log.write_bytes(before + b"x" * (most + 1) + behind)
    with pytest.raises(ValueError, match=TOO_LONG):
        read_all(log, maxLineBytes=str(most))


def test_a_long_half_line_is_waited_for_and_fails_when_it_ends(tmp_path, caplog):
    log = tmp_path / "log"
    log.write_bytes(b"ok\n" + b"x" * (3 << 20))
    (tmp_path / "other").write_text("one\n")
    tailing = Tailing(tmp_path, maxLineBytes=1 << 20)
    with caplog.at_level(logging.WARNING):
        assert sorted(tailing.batch()) == ["ok", "one"]
    assert f"{log} has no newline within 1048576 bytes from byte 3. Nothing after" in "\n".join(
        caplog.messages
    )
    append(tmp_path / "other", "two")
    assert tailing.batch() == ["two"]
    append(log, "")
    tailing.plan()
    with pytest.raises(ValueError, match=TOO_LONG):
        tailing.replay()


@pytest.mark.parametrize("whole", [0, 1, 1023, 1024, 1025, 65_536, 66_000, 140_000])
@pytest.mark.parametrize("half", [0, 1, 1024, 65_535, 65_536, 100_000])
def test_the_check_of_an_end_is_that_of_the_bytes_before_it(tmp_path, whole, half):
    file = tmp_path / "app.log"
    file.write_bytes(random.Random(whole).randbytes(whole)[:-1] + b"\n" + b"." * half)
    with LineFile(str(file), 1 << 20) as opened:
        end = opened.last_line_end(0, opened.size)
        assert opened.check_of_end(end) == opened.check_before(end)
        assert opened.check_of_end(0) == opened.check_before(0)


def test_a_short_file_is_read_once_to_be_known(tmp_path):
    append(tmp_path / "app.log", [1, 2])
    with LineFile(str(tmp_path / "app.log"), 1 << 20) as file:
        expected = file.check_before(file.size)
        end = file.last_line_end(0, file.size)
    assert file.check_of_end(end) == expected  # though it is closed


def test_readers_travel_by_value(tmp_path):
    """As on a cluster that has no copy of the package."""
    append(tmp_path / "log", *numbers(1, 3))
    reader = FileLinesDataSource({"path": str(tmp_path)}).reader(schema=None)
    cloudpickle.register_pickle_by_value(tutorial_pkg)
    try:
        shipped = cloudpickle.dumps((reader, reader.partitions()))
    finally:
        cloudpickle.unregister_pickle_by_value(tutorial_pkg)
    copy, partitions = cloudpickle.loads(shipped)
    assert rows(copy, partitions) == numbers(1, 3)
