"""file_lines without Spark: ranges, offsets, rotation, truncation, limits, odd files."""

from __future__ import annotations

import json
import logging
import os
import random
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark import cloudpickle
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows

import tutorial_pkg
from tests.unit.file_lines.driving import Tailing, append, numbers, read_all, rows
from tutorial_pkg.connectors.file_lines import line_file, ranges
from tutorial_pkg.connectors.file_lines.data_source import FileLinesDataSource


def part_of(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """Let tasks take parts of `size` bytes."""
    monkeypatch.setattr(ranges, "_LEAST_PART_BYTES", size)
    monkeypatch.setattr(ranges, "_MOST_PART_BYTES", size)


# ---- Batch -----------------------------------------------------------------------------------


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


def test_globs_directories_and_hidden_names(tmp_path):
    for name in ("a.csv", "b.txt", ".hidden.csv", "_started.csv", "x[1].csv"):
        (tmp_path / name).write_text(f"{name}\n")
    (tmp_path / "folder.csv").mkdir()
    os.mkfifo(tmp_path / "pipe.csv")
    assert sorted(read_all(tmp_path / "*.csv")) == ["a.csv", "x[1].csv"]
    assert sorted(read_all(tmp_path)) == ["a.csv", "b.txt", "x[1].csv"]
    assert read_all(tmp_path / "_*.csv") == ["_started.csv"]
    assert read_all(tmp_path / "x[1].csv") == ["x[1].csv"]
    assert read_all(f"file://{tmp_path}/b.txt") == ["b.txt"]
    assert sorted(read_all(f"{tmp_path.parent}/{tmp_path.name[:-1]}?/[ab].*")) == ["a.csv", "b.txt"]


def test_two_names_of_one_file_count_once(tmp_path):
    (tmp_path / "a").write_text("once\n")
    os.link(tmp_path / "a", tmp_path / "b")
    (tmp_path / "c").symlink_to(tmp_path / "a")
    assert read_all(tmp_path) == ["once"]


def test_an_empty_file_has_no_lines(tmp_path):
    (tmp_path / "a").touch()
    assert read_all(tmp_path / "a") == []


# ---- Errors before anything runs ---------------------------------------------------------------


def test_a_path_that_means_nothing(tmp_path):
    with pytest.raises(ValueError) as error:
        read_all(tmp_path / "*.csv")
    assert str(error.value) == (
        f"option `path`: no file at {tmp_path}/*.csv; correct it, or write the file"
    )


@pytest.mark.parametrize("tail", ["none/a.csv", "none/*/a.csv", "no*ne/a.csv"])
def test_a_directory_that_does_not_exist(tmp_path, tail):
    with pytest.raises(ValueError) as error:
        FileLinesDataSource({"path": f"{tmp_path}/{tail}"}).schema()
    folder = f"{tmp_path}/{tail}".rpartition("/")[0]
    assert str(error.value) == (
        f"option `path`: no directory '{folder}'; create it, or correct `path`"
    )


def test_another_file_system():
    with pytest.raises(
        ValueError, match=r"must be a local file, directory or glob, got 's3a://b/c'"
    ):
        FileLinesDataSource({"path": "s3a://b/c"}).schema()


def test_compressed_files(tmp_path):
    (tmp_path / "a.csv.gz").touch()
    with pytest.raises(ValueError, match=r"a\.csv\.gz is compressed, .* use a pattern that leaves"):
        read_all(tmp_path)
    with pytest.raises(ValueError, match=r"a\.csv\.gz is compressed"):
        Tailing(tmp_path).batch()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("startFrom", "now"),
        ("maxBytesPerTrigger", "0"),
        ("maxRowsPerTrigger", "-1"),
        ("maxLineBytes", "10"),
        ("eventTime", "iso"),
        ("mode", "LENIENT"),
    ],
)
def test_wrong_options_are_found_at_load(tmp_path, name, value):
    source = FileLinesDataSource({"path": str(tmp_path), name: value})
    with pytest.raises(ValueError, match=f"option `{name}` must be .*, got '{value}'"):
        source.schema()


def test_a_fifo_is_refused_and_never_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="pipe is neither a file nor a directory"):
        read_all(tmp_path / "pipe")
    with pytest.raises(ValueError, match="pipe is neither a file nor a directory"):
        Tailing(tmp_path / "pipe").batch()


def test_a_line_without_end_is_an_error_not_a_memory_problem(tmp_path):
    endless = tmp_path / "endless"
    endless.write_bytes(b"ok\n" + b"x" * (3 << 20))
    with pytest.raises(ValueError, match=TOO_LONG):
        read_all(endless, maxLineBytes=str(1 << 20))
    assert len(read_all(endless)) == 2


TOO_LONG = r" has no newline within 1048576 bytes from byte \d+; raise option `maxLineBytes`"


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
    assert f"{log} has no newline within 1048576 bytes from byte 3. Nothing behind" in "\n".join(
        caplog.messages
    )
    append(tmp_path / "other", "two")
    assert tailing.batch() == ["two"]
    append(log, "")
    tailing.plan()
    with pytest.raises(ValueError, match=TOO_LONG):
        tailing.replay()


# ---- Tailing -----------------------------------------------------------------------------------


def test_half_a_line_is_held_back_until_it_is_whole(tmp_path):
    log = tmp_path / "log"
    log.write_text("one\ntw")
    tailing = Tailing(log)
    assert tailing.batch() == ["one"]
    assert tailing.batch() == []
    append(log, "o")
    assert tailing.batch() == ["two"]


def test_nothing_new_leaves_the_offset_as_it_is(tmp_path):
    append(tmp_path / "log", "one")
    tailing = Tailing(tmp_path)
    tailing.batch()
    before = json.dumps(tailing.offset)
    (tmp_path / "log").open("a").write("half a li")
    assert tailing.batch() == []
    assert json.dumps(tailing.offset) == before


def test_a_batch_can_be_read_again_after_more_was_appended(tmp_path):
    log = tmp_path / "log"
    append(log, *numbers(1, 5))
    tailing = Tailing(log)
    tailing.plan()
    append(log, *numbers(6, 9))
    assert tailing.replay() == tailing.replay() == numbers(1, 5)
    assert tailing.batch() == numbers(6, 9)


def test_a_file_that_does_not_exist_yet_is_waited_for(tmp_path):
    tailing = Tailing(tmp_path / "later")
    assert tailing.batch() == []
    append(tmp_path / "later", "one")
    assert tailing.batch() == ["one"]


def test_latest_starts_behind_what_is_there_but_reads_new_files_whole(tmp_path):
    (tmp_path / "old").write_text("skipped\nha")
    tailing = Tailing(tmp_path, startFrom="latest")
    assert tailing.batch() == []
    append(tmp_path / "old", "lf")
    append(tmp_path / "new", "new")
    assert sorted(tailing.batch()) == ["half", "new"]


@pytest.mark.parametrize("pattern", ["data.csv", "*", "data*"])
def test_rename_rotation_reads_the_old_file_to_its_end(tmp_path, pattern):
    log = tmp_path / "data.csv"
    append(log, *numbers(1, 3))
    tailing = Tailing(tmp_path / pattern)
    assert tailing.batch() == numbers(1, 3)
    append(log, *numbers(4, 5))
    log.rename(tmp_path / "data.csv.1")
    append(log, *numbers(6, 7))
    assert sorted(tailing.batch()) == numbers(4, 7)
    append(tmp_path / "data.csv.1", *numbers(8, 8))  # a writer that has not noticed
    (tmp_path / "data.csv.1").rename(tmp_path / "data.csv.2")
    log.rename(tmp_path / "data.csv.1")
    append(log, *numbers(9, 9))
    assert sorted(tailing.batch()) == numbers(8, 9)
    assert tailing.batch() == []


def test_a_file_renamed_between_planning_and_reading(tmp_path):
    log = tmp_path / "data.csv"
    append(log, *numbers(1, 3))
    tailing = Tailing(log)
    tailing.plan()
    log.rename(tmp_path / "data.csv.1")
    append(log, *numbers(4, 4))
    assert tailing.replay() == numbers(1, 3)
    assert tailing.batch() == numbers(4, 4)


def test_a_file_seen_without_a_line_may_be_renamed_before_the_next_look(tmp_path):
    log = tmp_path / "data.csv"
    log.touch()
    tailing = Tailing(log)
    assert tailing.batch() == []
    append(log, "one")
    log.rename(tmp_path / "data.csv.1")
    append(log, "two")
    assert sorted(tailing.batch()) == ["one", "two"]


@pytest.mark.parametrize("longer", [False, True])
def test_a_truncated_file_is_read_from_its_start_with_a_warning(tmp_path, caplog, longer):
    log = tmp_path / "data.csv"
    append(log, *numbers(100, 109))
    tailing = Tailing(log)
    tailing.batch()
    os.truncate(log, 0)
    again = numbers(200, 239) if longer else numbers(200, 203)
    append(log, *again)
    with caplog.at_level(logging.WARNING):
        assert tailing.batch() == again
    assert f"{log} was deleted, truncated or rewritten" in "\n".join(caplog.messages)
    assert "byte 90" in "\n".join(caplog.messages)
    assert tailing.batch() == []


def test_a_file_rewritten_to_the_same_length_is_noticed(tmp_path):
    log = tmp_path / "data.csv"
    append(log, "aaa")
    tailing = Tailing(log)
    tailing.batch()
    log.write_text("bbb\n")
    assert tailing.batch() == ["bbb"]


def test_copytruncate_takes_unread_lines_from_the_copy(tmp_path, caplog):
    log = tmp_path / "data.csv"
    append(log, *numbers(1, 3))
    tailing = Tailing(log)
    assert tailing.batch() == numbers(1, 3)
    append(log, *numbers(4, 5))
    shutil.copy(log, tmp_path / "data.csv.1")
    os.truncate(log, 0)
    append(log, *numbers(6, 6))
    assert sorted(tailing.batch()) == numbers(4, 6)
    assert not caplog.records


def test_a_new_file_with_an_old_name_starts_at_its_beginning(tmp_path):
    log = tmp_path / "data.csv"
    append(log, *numbers(1, 3))
    tailing = Tailing(log)
    tailing.batch()
    log.unlink()
    append(log, *numbers(4, 9))  # most file systems give it the same inode
    assert tailing.batch() == numbers(4, 9)
    assert sorted(tailing.offset["files"]) == ["1"]


def test_deleted_files_leave_the_offset(tmp_path):
    for i in range(20):
        append(tmp_path / f"{i:02}", f"file {i}")
    tailing = Tailing(tmp_path)
    assert len(tailing.batch()) == 20
    for i in range(19):
        (tmp_path / f"{i:02}").unlink()
    append(tmp_path / "new", "one more")
    assert tailing.batch() == ["one more"]
    assert sorted(tailing.offset["files"], key=int) == ["19", "20"]


def test_a_batch_whose_file_is_gone_says_what_to_do(tmp_path):
    log = tmp_path / "data.csv"
    append(log, "one")
    tailing = Tailing(log)
    tailing.plan()
    log.unlink()
    with pytest.raises(FileNotFoundError) as error:
        tailing.replay()
    assert str(error.value) == (
        f"{log} is gone or was rewritten, and its bytes 0 to 4 belong to a batch that has to be "
        "read again; put it back, or set option `failOnDataLoss` to false to go on without them"
    )
    append(log, "two")
    with pytest.raises(FileNotFoundError, match="is gone or was rewritten"):
        tailing.replay()


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo])
def test_a_file_replaced_by_something_else(tmp_path, make):
    log = tmp_path / "data.csv"
    append(log, "one")
    whole, part = Tailing(tmp_path), Tailing(log)
    assert whole.batch() == part.batch() == ["one"]
    log.unlink()
    make(log)
    append(tmp_path / "other.csv", "two")
    assert whole.batch() == ["two"]
    with pytest.raises(ValueError, match=r"data\.csv is neither a file nor|is a directory now"):
        part.batch()


def test_an_unreadable_file_is_an_error():
    with tempfile.TemporaryDirectory() as folder:
        secret = Path(folder, "secret.csv")
        append(secret, "one")
        tailing = Tailing(Path(folder))
        Path(folder).chmod(0o755)
        secret.chmod(0)
        with as_ordinary_user(), pytest.raises(PermissionError) as error:
            tailing.batch()
    assert str(error.value) == (
        f"cannot read {secret}: Permission denied; let the user who runs Spark read it, "
        "or use a path that leaves it out"
    )


@contextmanager
def as_ordinary_user() -> Iterator[None]:
    """Root reads everything, so become someone else for a moment if we are root."""
    me = os.geteuid()
    if me == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(me)


# ---- Limits ------------------------------------------------------------------------------------


def test_a_row_limit_is_kept(tmp_path):
    append(tmp_path / "log", *numbers(1, 10))
    tailing = Tailing(tmp_path, maxRowsPerTrigger=4)
    batches = [tailing.batch() for _ in range(4)]
    assert batches == [numbers(1, 4), numbers(5, 8), numbers(9, 10), []]


def test_a_byte_limit_takes_the_line_in_which_it_ends(tmp_path):
    append(tmp_path / "log", "aaaa", "bbbb", "cccc", "dddd")
    tailing = Tailing(tmp_path, maxBytesPerTrigger=6)
    assert [tailing.batch() for _ in range(3)] == [["aaaa", "bbbb"], ["cccc", "dddd"], []]


def test_a_byte_limit_below_a_line_still_moves_on(tmp_path):
    append(tmp_path / "log", "a" * 50, "b" * 50)
    tailing = Tailing(tmp_path, maxBytesPerTrigger=1)
    assert [tailing.batch() for _ in range(3)] == [["a" * 50], ["b" * 50], []]


def test_both_limits_hold_together(tmp_path):
    append(tmp_path / "log", *numbers(1, 9))
    assert Tailing(tmp_path, maxRowsPerTrigger=2, maxBytesPerTrigger=50).batch() == numbers(1, 2)
    assert Tailing(tmp_path, maxRowsPerTrigger=8, maxBytesPerTrigger=7).batch() == numbers(1, 1)


def test_a_limit_is_shared_by_all_files(tmp_path):
    append(tmp_path / "big", *(f"big {i}" for i in range(100)))
    append(tmp_path / "small", "small 0")
    append(tmp_path / "middle", *(f"middle {i}" for i in range(50)))
    batch = Tailing(tmp_path, maxRowsPerTrigger=11).batch()
    counts = {
        name: sum(row.startswith(name) for row in batch) for name in ("big", "middle", "small")
    }
    assert counts == {"small": 1, "middle": 5, "big": 5}


def test_reading_all_ignores_the_limits(tmp_path):
    append(tmp_path / "log", *numbers(1, 10))
    reader = FileLinesDataSource({"path": str(tmp_path), "maxRowsPerTrigger": "2"}).streamReader(
        None
    )
    assert reader.getDefaultReadLimit() == ReadMaxRows(2)
    end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    assert len(rows(reader, reader.partitions(reader.initialOffset(), end))) == 10


def test_from_latest_a_repeated_first_batch_has_nothing_of_before(tmp_path):
    """Spark asks for the initial offset again until it is through; a file may be gone by then."""
    for name in ("a", "b"):
        append(tmp_path / name, f"old {name}")

    def reader():
        source = FileLinesDataSource({"path": str(tmp_path), "startFrom": "latest"})
        return source.streamReader(None)

    first = reader()
    end = first.latestOffset(first.initialOffset(), ReadAllAvailable())
    assert first.partitions(first.initialOffset(), end) == []
    for name in ("a", "b"):
        append(tmp_path / name, f"new {name}")
    (tmp_path / min(("a", "b"), key=lambda name: (tmp_path / name).stat().st_ino)).unlink()
    repeated = reader()
    assert repeated.partitions(repeated.initialOffset(), end) == []
    later = repeated.latestOffset(end, ReadAllAvailable())
    [row] = rows(repeated, repeated.partitions(end, later))
    assert row.startswith("new")


def test_from_latest_of_an_empty_folder_all_is_new(tmp_path):
    source = FileLinesDataSource({"path": str(tmp_path), "startFrom": "latest"})
    reader = source.streamReader(None)
    end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    append(tmp_path / "log", *numbers(1, 3))
    later = reader.latestOffset(end, ReadAllAvailable())
    assert rows(reader, reader.partitions(end, later)) == numbers(1, 3)


def test_the_default_limit(tmp_path):
    def limit(**options: str):
        source = FileLinesDataSource({"path": str(tmp_path), **options})
        return source.streamReader(None).getDefaultReadLimit()

    assert limit() == ReadAllAvailable()
    assert limit(maxBytesPerTrigger="7") == ReadMaxBytes(7)


def test_what_the_limit_leaves_is_reported(tmp_path):
    append(tmp_path / "log", *numbers(1, 10))
    reader = FileLinesDataSource({"path": str(tmp_path), "maxRowsPerTrigger": "2"}).streamReader(
        None
    )
    assert reader.reportLatestOffset() is None
    reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    assert reader.reportLatestOffset() == {"unread": len("line N\n") * 7 + len("line 10\n")}


def test_available_now_stops_at_what_there_was(tmp_path):
    append(tmp_path / "log", *numbers(1, 5))
    reader = FileLinesDataSource({"path": str(tmp_path), "maxRowsPerTrigger": "3"}).streamReader(
        None
    )
    reader.prepareForTriggerAvailableNow()
    append(tmp_path / "log", *numbers(6, 9))
    append(tmp_path / "new", "new")
    offsets = [reader.initialOffset()]
    for _ in range(3):
        offsets.append(reader.latestOffset(offsets[-1], reader.getDefaultReadLimit()))
    assert offsets[2] == offsets[3]
    assert rows(reader, reader.partitions(offsets[0], offsets[2])) == numbers(1, 5)


def test_available_now_survives_a_rotation(tmp_path):
    log = tmp_path / "log"
    append(log, *numbers(1, 5))
    reader = FileLinesDataSource({"path": str(log), "maxRowsPerTrigger": "3"}).streamReader(None)
    reader.prepareForTriggerAvailableNow()
    begin = reader.initialOffset()
    middle = reader.latestOffset(begin, reader.getDefaultReadLimit())
    log.rename(tmp_path / "log.1")
    append(log, "later")
    end = reader.latestOffset(middle, reader.getDefaultReadLimit())
    assert rows(reader, reader.partitions(middle, end)) == numbers(4, 5)
    assert reader.latestOffset(end, reader.getDefaultReadLimit()) == end


def test_available_now_reads_the_end_of_a_file_that_was_renamed_before(tmp_path):
    log = tmp_path / "log"
    append(log, *numbers(1, 2))
    tailing = Tailing(log)
    tailing.batch()
    append(log, *numbers(3, 4))
    log.rename(tmp_path / "log.1")
    reader = tailing.reader()
    reader.prepareForTriggerAvailableNow()
    end = reader.latestOffset(tailing.offset, reader.getDefaultReadLimit())
    assert rows(reader, reader.partitions(tailing.offset, end)) == numbers(3, 4)


# ---- A random life -----------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
def test_random_rotations_lose_and_repeat_nothing(tmp_path, seed):
    chance = random.Random(seed)
    log = tmp_path / "data.csv"
    limits = chance.choice([{}, {"maxRowsPerTrigger": 3}, {"maxBytesPerTrigger": 40}])
    pattern = chance.choice(["data.csv", "*"])
    tailing = Tailing(tmp_path / pattern, **limits)
    read: list[str] = []
    written = rotations = 0
    seen = False  # a file that comes and goes between two looks matches `data.csv` in none
    for _ in range(150):
        action = chance.randrange(10)
        if action < 5:
            lines = numbers(written + 1, written + chance.randrange(1, 6))
            append(log, *lines)
            written += len(lines)
        elif action < 9 or not log.exists():
            before = tailing.offset
            read += tailing.batch()
            assert not went_back(before, tailing.offset)
            seen = log.exists()
        elif seen or pattern == "*":
            seen, rotations = False, rotations + 1
            log.rename(tmp_path / f"data.csv.{rotations}")
    while batch := tailing.batch():
        read += batch
    assert sorted(read) == sorted(numbers(1, written))


def went_back(before: dict, after: dict) -> bool:
    known = before["files"].keys() & after["files"].keys()
    return any(after["files"][n]["next"] < before["files"][n]["next"] for n in known)


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
