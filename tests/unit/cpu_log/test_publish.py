"""The commit protocol on its own: real files, real processes, real `kill -9`, no Spark."""

from __future__ import annotations

import errno
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Lock

import psutil
import pytest

from tutorial_pkg.connectors.cpu_log import applying, publish, record
from tutorial_pkg.connectors.cpu_log.publish import CRASH_AT, PublishedDirectory
from tutorial_pkg.connectors.cpu_log.query_owner import Owner
from tutorial_pkg.connectors.cpu_log.record import Staged
from tutorial_pkg.core import disk
from tutorial_pkg.processes.query_process import wait_until

QUERY = "query-a"
HERE = os.uname().nodename
FIRST = Owner(QUERY, "run-1", HERE, 1, 0.5)
OTHER = Owner("query-b", "run-2", HERE, 2, 0.5)


def directory_at(path: Path, running: tuple[Owner, ...] = (), **options: int) -> PublishedDirectory:
    return PublishedDirectory(path, owner_is_running=lambda owner, _: owner in running, **options)


def staged(
    directory: PublishedDirectory, texts: dict[int, str], query: str = QUERY
) -> list[Staged]:
    """What tasks report that wrote these texts, by partition."""
    reports = []
    for partition, text in texts.items():
        stage = directory.stage(query, partition)
        stage.write(text.encode())
        reports += stage.finish()
    return reports


def visible(path: Path) -> dict[str, str]:
    return {file.name: file.read_text() for file in sorted(path.glob("data.*.csv"))}


def staged_names(path: Path) -> list[str]:
    return sorted(file.name for file in (path / "_cpu_log" / "staged").iterdir())


class FullDisk:
    """The kernel's answer when a disk is full, after some of the bytes have gone in."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, room: int) -> None:
        self._room, self._copy, self._one_at_a_time = room, applying.copy_some, Lock()
        monkeypatch.setattr(applying, "copy_some", self)

    def __call__(self, reader: int, writer: int, count: int, source: int, target: int) -> int:
        with self._one_at_a_time:
            if not self._room:
                raise OSError(errno.ENOSPC, "No space left on device")
            copied = self._copy(reader, writer, min(count, self._room), source, target)
            self._room -= copied
            return copied


def commit_to_a_full_disk(
    monkeypatch: pytest.MonkeyPatch, directory: PublishedDirectory, texts: dict[int, str], room: int
) -> None:
    """The second batch, which is recorded, but of whose bytes only `room` are copied."""
    with monkeypatch.context() as patch:
        FullDisk(patch, room)
        with pytest.raises(OSError, match="No space left on device"):
            directory.commit(FIRST, 1, staged(directory, texts))


# ---- publishing ------------------------------------------------------------------------------


def test_batches_append_to_one_file_per_partition(tmp_path: Path) -> None:
    directory = directory_at(tmp_path)
    assert directory.commit(FIRST, 0, staged(directory, {0: "a\n", 1: "b\n"}))
    assert directory.commit(FIRST, 1, staged(directory, {0: "c\n"}))
    assert visible(tmp_path) == {"data.0.csv": "a\nc\n", "data.1.csv": "b\n"}
    assert staged_names(tmp_path) == []


def test_a_staged_line_is_invisible_until_its_commit(tmp_path: Path) -> None:
    directory = directory_at(tmp_path)
    reports = staged(directory, {0: "a\n"})
    assert visible(tmp_path) == {}
    directory.commit(FIRST, 0, reports)
    assert visible(tmp_path) == {"data.0.csv": "a\n"}


def test_a_batch_of_the_same_query_is_published_once(tmp_path: Path) -> None:
    directory = directory_at(tmp_path)
    directory.commit(FIRST, 7, staged(directory, {0: "first\n"}))
    assert not directory.commit(FIRST, 7, staged(directory, {0: "again\n"}))
    assert not directory.commit(FIRST, 6, staged(directory, {0: "older\n"}))
    assert visible(tmp_path) == {"data.0.csv": "first\n"}
    assert staged_names(tmp_path) == []


def test_a_batch_is_repeated_when_its_plan_is_the_same(tmp_path: Path) -> None:
    directory = directory_at(tmp_path)
    directory.commit(FIRST, 7, staged(directory, {0: "first\n"}), plan="as planned")
    assert not directory.commit(FIRST, 7, staged(directory, {0: "again\n"}), plan="as planned")
    assert visible(tmp_path) == {"data.0.csv": "first\n"}


@pytest.mark.parametrize(("batch", "plan"), [(7, "anew"), (6, "anew"), (6, "as planned")])
def test_a_batch_that_was_planned_anew_is_an_error(tmp_path: Path, batch: int, plan: str) -> None:
    """Skipped, new lines would be lost; published, old ones would come twice."""
    directory = directory_at(tmp_path)
    directory.commit(FIRST, 7, staged(directory, {0: "first\n"}), plan="as planned")
    for _ in range(2):
        with pytest.raises(RuntimeError) as failed:
            directory.commit(FIRST, batch, staged(directory, {0: "new\n"}), plan)
    assert str(failed.value) == (
        f"batch {batch} of query query-a was planned anew, but {tmp_path} has its batches up to 7 "
        "already: its checkpoint was set back, and lines may come that are there. Restore the "
        "checkpoint; or set `failOnDuplicates` to false, so that the query goes on, loses nothing, "
        "and may repeat lines of these batches"
    )
    assert visible(tmp_path) == {"data.0.csv": "first\n"}


def test_where_duplicates_are_allowed_a_batch_planned_anew_is_published(tmp_path: Path) -> None:
    directory = directory_at(tmp_path, fail_on_duplicates=False)
    directory.commit(FIRST, 7, staged(directory, {0: "seven\n"}), plan="7")
    assert directory.commit(FIRST, 6, staged(directory, {0: "new six\n"}), plan="6, anew")
    assert not directory.commit(FIRST, 6, staged(directory, {0: "new six\n"}), plan="6, anew")
    assert directory.commit(FIRST, 7, staged(directory, {0: "new seven\n"}), plan="7, anew")
    assert visible(tmp_path) == {"data.0.csv": "seven\nnew six\nnew seven\n"}


@pytest.mark.parametrize(("before", "now"), [(None, "known"), ("known", None), (None, None)])
def test_where_no_plan_is_known_the_number_decides(
    tmp_path: Path, before: str | None, now: str | None
) -> None:
    directory = directory_at(tmp_path)
    directory.commit(FIRST, 7, staged(directory, {0: "first\n"}), before)
    assert not directory.commit(FIRST, 7, staged(directory, {0: "again\n"}), now)
    assert visible(tmp_path) == {"data.0.csv": "first\n"}


def test_batch_0_of_a_new_query_is_not_mistaken_for_the_old_one(tmp_path: Path) -> None:
    directory = directory_at(tmp_path)
    directory.commit(FIRST, 0, staged(directory, {0: "old\n"}))
    assert directory.commit(OTHER, 0, staged(directory, {0: "new\n"}, OTHER.query))
    assert not directory.commit(FIRST, 0, staged(directory, {0: "old\n"}))
    assert visible(tmp_path) == {"data.0.csv": "old\nnew\n"}


def test_a_job_without_batches_is_never_mistaken_for_another(tmp_path: Path) -> None:
    directory = directory_at(tmp_path)
    for _ in range(2):
        assert directory.commit(FIRST, None, staged(directory, {0: "a\n"}))
    assert visible(tmp_path) == {"data.0.csv": "a\na\n"}


def test_an_empty_batch_leaves_no_trace(tmp_path: Path) -> None:
    directory = directory_at(tmp_path / "new")
    stage = directory.stage(QUERY, 0)
    assert stage.finish() == []
    assert not directory.commit(FIRST, 0, [])
    assert not (tmp_path / "new").exists()


def test_a_thousand_batches_leave_one_file_per_partition_and_a_record_of_one_batch(
    tmp_path: Path,
) -> None:
    directory = directory_at(tmp_path)
    sizes = []
    for batch in range(1000):
        directory.commit(FIRST, batch, staged(directory, {0: f"{batch:04}\n"}))
        sizes.append((tmp_path / "_cpu_log" / "record.json").stat().st_size)
    assert visible(tmp_path) == {"data.0.csv": "".join(f"{i:04}\n" for i in range(1000))}
    assert max(sizes) - min(sizes) < 20  # digits of the batch and of the length
    assert sorted(p.name for p in (tmp_path / "_cpu_log").rglob("*")) == [
        "lock",
        "record.json",
        "staged",
    ]


def test_a_file_that_would_grow_past_the_limit_is_followed_by_another(tmp_path: Path) -> None:
    directory = directory_at(tmp_path, max_file_bytes=5)
    for batch, text in enumerate(["aa\n", "b\n", "cc\n", "ddddddd\n", "e\n"]):
        directory.commit(FIRST, batch, staged(directory, {0: text}))
    assert visible(tmp_path) == {
        "data.0.csv": "aa\nb\n",
        "data.0.1.csv": "cc\n",
        "data.0.2.csv": "ddddddd\n",
        "data.0.3.csv": "e\n",
    }


def test_one_task_that_writes_past_the_limit_fills_several_files(tmp_path: Path) -> None:
    directory = directory_at(tmp_path, max_file_bytes=5)
    stage = directory.stage(QUERY, 0)
    for text in ("aa\n", "bb\n", "c\n"):
        stage.write(text.encode())
    directory.commit(FIRST, 0, stage.finish())
    assert visible(tmp_path) == {"data.0.csv": "aa\n", "data.0.1.csv": "bb\nc\n"}


# ---- attempts that fail, lose or come late ---------------------------------------------------


def test_a_losing_attempt_is_swept_even_when_it_finishes_late(tmp_path: Path) -> None:
    directory = directory_at(tmp_path)
    loser = directory.stage(QUERY, 0)
    loser.write(memoryview(b"loser\n"))
    directory.commit(FIRST, 0, staged(directory, {0: "winner\n"}))
    loser.finish()
    late = directory.stage(QUERY, 0)
    late.write(memoryview(b"late\n"))
    late.finish()
    assert len(staged_names(tmp_path)) == 1
    directory.commit(FIRST, 1, staged(directory, {0: "next\n"}))
    assert visible(tmp_path) == {"data.0.csv": "winner\nnext\n"}
    assert staged_names(tmp_path) == []


def test_an_attempt_that_writes_on_after_abort_is_never_published(tmp_path: Path) -> None:
    directory = directory_at(tmp_path)
    early, late = directory.stage(QUERY, 0), directory.stage(QUERY, 1)
    early.write(memoryview(b"before abort\n"))
    directory.sweep(QUERY)
    early.write(memoryview(b"after abort\n"))
    late.write(memoryview(b"after abort\n"))
    assert early.finish() and late.finish()
    directory.commit(FIRST, 0, staged(directory, {0: "retried\n"}))
    assert visible(tmp_path) == {"data.0.csv": "retried\n"}
    assert staged_names(tmp_path) == []


def test_a_discarded_attempt_leaves_nothing(tmp_path: Path) -> None:
    directory = directory_at(tmp_path)
    stage = directory.stage(QUERY, 0)
    stage.write(memoryview(b"a\n"))
    stage.discard()
    assert staged_names(tmp_path) == []


def test_another_querys_orphans_are_left_alone(tmp_path: Path) -> None:
    directory = directory_at(tmp_path)
    [orphan] = staged(directory, {0: "b\n"}, OTHER.query)
    staged(directory, {0: "a\n"})
    directory.sweep(QUERY)
    assert staged_names(tmp_path) == [orphan.name]


def test_a_batch_job_that_was_killed_leaves_nothing_to_the_next_one(tmp_path: Path) -> None:
    directory = directory_at(tmp_path)
    [left] = staged(directory, {0: "b\n"}, f"batch-{HERE}-4194305-1-{'0' * 32}")
    elsewhere = staged(directory, {0: "b\n"}, f"batch-elsewhere-4194305-1-{'0' * 32}")
    me = psutil.Process()
    alive = f"batch-{HERE}-{me.pid}-{me.create_time():.0f}-{'0' * 32}"
    running = staged(directory, {0: "b\n"}, alive)
    assert left.name in staged_names(tmp_path)
    directory.commit(FIRST, 0, staged(directory, {0: "a\n"}))
    assert staged_names(tmp_path) == sorted(each.name for each in (*elsewhere, *running))


def test_abort_keeps_what_a_record_still_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark aborts a batch whose commit failed, but a recorded batch cannot be taken back."""
    directory = directory_at(tmp_path)
    directory.commit(FIRST, 0, staged(directory, {0: "a\n", 1: "b\n"}))
    commit_to_a_full_disk(monkeypatch, directory, {0: "aaaa\n", 1: "bbbb\n"}, room=3)
    directory.sweep(QUERY)
    assert sum(map(len, visible(tmp_path).values())) == 4 + 3
    directory.recover()
    assert visible(tmp_path) == {"data.0.csv": "a\naaaa\n", "data.1.csv": "b\nbbbb\n"}


def test_a_crash_between_a_new_file_and_one_that_grows_is_recovered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = directory_at(tmp_path)
    directory.commit(FIRST, 0, staged(directory, {0: "a\n"}))
    commit_to_a_full_disk(monkeypatch, directory, {0: "aa\n", 1: "bb\n"}, room=1)
    assert visible(tmp_path) == {"data.0.csv": "a\na", "data.1.csv": "bb\n"}
    new = (tmp_path / "data.1.csv").stat().st_ino
    directory.recover()
    assert visible(tmp_path) == {"data.0.csv": "a\naa\n", "data.1.csv": "bb\n"}
    assert (tmp_path / "data.1.csv").stat().st_ino == new, "whoever follows it has lost it"
    assert staged_names(tmp_path) == []


def test_recovery_syncs_what_was_renamed_before_the_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a power failure could undo the renames after the batch has been called done."""
    directory = directory_at(tmp_path / "log")
    directory.commit(FIRST, 0, staged(directory, {0: "a\n"}))
    with monkeypatch.context() as patch:

        def crash(folder: Path) -> None:
            if (tmp_path / "log" / "data.1.csv").exists():
                raise OSError(errno.EIO, "the crash")

        patch.setattr(applying, "sync_directory", crash)
        with pytest.raises(OSError, match="the crash"):
            directory.commit(FIRST, 1, staged(directory, {1: "b\n"}))
    synced = []
    for module in (publish, record, applying):
        monkeypatch.setattr(module, "sync_directory", synced.append)
    assert not directory.commit(FIRST, 1, staged(directory, {1: "b\n"}))
    assert synced == [tmp_path / "log" / "_cpu_log", tmp_path / "log"]
    assert visible(tmp_path / "log") == {"data.0.csv": "a\n", "data.1.csv": "b\n"}


def test_recovery_notices_that_published_bytes_are_gone(tmp_path: Path) -> None:
    directory = directory_at(tmp_path)
    directory.commit(FIRST, 0, staged(directory, {0: "a\n"}))
    (tmp_path / "data.0.csv").unlink()
    with pytest.raises(RuntimeError, match="has 0 bytes instead of 2: somebody else has changed"):
        directory.commit(FIRST, 1, staged(directory, {1: "b\n"}))


@pytest.mark.parametrize("refusal", [errno.EOPNOTSUPP, errno.EXDEV, None])
def test_where_the_kernel_does_not_copy_python_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refusal: int | None
) -> None:
    def refuse(*_: int) -> int:
        raise OSError(refusal, "not here")

    monkeypatch.setattr(os, "copy_file_range", refuse, raising=False)
    if refusal is None:
        monkeypatch.delattr(os, "copy_file_range")
    monkeypatch.setattr(disk, "READ_BYTES", 7)
    directory = directory_at(tmp_path)
    long = "".join(f"{i}\n" for i in range(100))
    for batch, text in enumerate(["a\n", long, "b\n"]):  # only what extends a file is copied
        directory.commit(FIRST, batch, staged(directory, {0: text}))
    assert visible(tmp_path) == {"data.0.csv": f"a\n{long}b\n"}


def test_what_the_kernel_cannot_read_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python's own copy is no way around a broken disk."""

    def refuse(*_: int) -> int:
        raise OSError(errno.EIO, "Input/output error")

    directory = directory_at(tmp_path)
    directory.commit(FIRST, 0, staged(directory, {0: "a\n"}))
    with monkeypatch.context() as patch:
        patch.setattr(os, "copy_file_range", refuse, raising=False)
        with pytest.raises(OSError, match="Input/output error while publishing"):
            directory.commit(FIRST, 1, staged(directory, {0: "b\n"}))
    assert visible(tmp_path) == {"data.0.csv": "a\n"}


def test_an_empty_file_that_is_being_followed_stays_the_same_file(tmp_path: Path) -> None:
    followed = tmp_path / "data.0.csv"
    followed.touch()
    number = followed.stat().st_ino
    directory = directory_at(tmp_path)
    directory.commit(FIRST, 0, staged(directory, {0: "a\n"}))
    assert followed.stat().st_ino == number
    assert visible(tmp_path) == {"data.0.csv": "a\n"}


def test_a_full_disk_names_the_file_and_the_next_commit_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = directory_at(tmp_path)
    directory.commit(FIRST, 0, staged(directory, {0: "a\n"}))
    with monkeypatch.context() as patch:
        FullDisk(patch, room=0)
        with pytest.raises(OSError) as failed:
            directory.commit(FIRST, 1, staged(directory, {0: "b\n"}))
    assert str(failed.value) == (
        "[Errno 28] No space left on device while publishing; the next commit finishes it: "
        f"'{tmp_path}/data.0.csv'"
    )
    assert not directory.commit(FIRST, 1, staged(directory, {0: "b\n"}))
    assert visible(tmp_path) == {"data.0.csv": "a\nb\n"}


def test_staged_bytes_that_are_gone_are_noticed_before_they_are_recorded(tmp_path: Path) -> None:
    directory = directory_at(tmp_path)
    reports = staged(directory, {0: "a\n"})
    path = tmp_path / "_cpu_log" / "staged" / reports[0].name
    path.unlink()
    with pytest.raises(RuntimeError) as failed:
        directory.commit(FIRST, 0, reports)
    assert str(failed.value) == (
        f"{path} has 0 bytes instead of 2: it was removed or changed before its commit; "
        "run the query again"
    )
    assert directory.commit(FIRST, 0, staged(directory, {0: "a\n"}))


# ---- what is not ours ------------------------------------------------------------------------


def test_a_foreign_file_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "data.1.csv").write_text("mine\n")
    directory = directory_at(tmp_path)
    with pytest.raises(RuntimeError) as failed:
        directory.commit(FIRST, 0, staged(directory, {0: "a\n", 1: "b\n"}))
    assert str(failed.value) == (
        f"{tmp_path}/data.1.csv has 5 bytes instead of 0: it was not written by this sink; "
        "move it away, or choose another directory"
    )
    assert visible(tmp_path) == {"data.1.csv": "mine\n"}
    (tmp_path / "data.1.csv").unlink()
    assert directory.commit(FIRST, 0, staged(directory, {0: "a\n", 1: "b\n"}))


SYMLINKED = ["data.0.csv", "_cpu_log", "_cpu_log/lock", "_cpu_log/staged"]


@pytest.mark.parametrize("name", SYMLINKED)
def test_a_symbolic_link_is_not_followed(tmp_path: Path, name: str) -> None:
    """Where others may write, a link could lead to any file of the user who runs the query."""
    victim, out = tmp_path / "victim", tmp_path / "out"
    victim.mkdir() if name in ("_cpu_log", "_cpu_log/staged") else victim.touch()
    (out / name).parent.mkdir(parents=True)
    (out / name).symlink_to(victim)
    directory = directory_at(out)
    with pytest.raises((OSError, RuntimeError)) as failed:
        directory.commit(FIRST, 0, staged(directory, {0: "a\n"}))
    assert str(out / name) in str(failed.value)
    assert "symbolic link" in str(failed.value)
    assert victim.read_text() == "" if victim.is_file() else not list(victim.iterdir())


def test_a_link_in_the_place_of_the_drafted_record_is_replaced(tmp_path: Path) -> None:
    victim, out = tmp_path / "victim", tmp_path / "out"
    victim.write_text("mine\n")
    (out / "_cpu_log").mkdir(parents=True)
    (out / "_cpu_log" / "record.draft").symlink_to(victim)
    directory = directory_at(out)
    directory.commit(FIRST, 0, staged(directory, {0: "a\n"}))
    assert victim.read_text() == "mine\n"
    assert visible(out) == {"data.0.csv": "a\n"}


def test_the_state_is_private_and_the_lines_are_as_the_umask_says(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        directory = directory_at(tmp_path / "out")
        directory.commit(FIRST, 0, staged(directory, {0: "a\n"}))
    finally:
        os.umask(before)
    out = tmp_path / "out"
    modes = {path: path.stat().st_mode & 0o777 for path in (out, *out.rglob("*"))}
    assert {str(path.relative_to(out)): mode for path, mode in modes.items()} == {
        ".": 0o755,
        "data.0.csv": 0o644,
        "_cpu_log": 0o700,
        "_cpu_log/staged": 0o700,
        "_cpu_log/lock": 0o600,
        "_cpu_log/record.json": 0o600,
    }


@pytest.mark.parametrize(("content", "size"), [("a\nb\n", 4), ("", 0)])
def test_a_file_that_somebody_changed_is_noticed(tmp_path: Path, content: str, size: int) -> None:
    directory = directory_at(tmp_path)
    directory.commit(FIRST, 0, staged(directory, {0: "a\n"}))
    (tmp_path / "data.0.csv").write_text(content)
    with pytest.raises(RuntimeError) as failed:
        directory.commit(FIRST, 1, staged(directory, {0: "c\n"}))
    assert str(failed.value) == (
        f"{tmp_path}/data.0.csv has {size} bytes instead of 2: somebody else has changed it; "
        "restore it, or move the whole directory away"
    )
    assert visible(tmp_path) == {"data.0.csv": content}


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda text: text.replace("query-a", "query-x"), "its checksum does not match"),
        (lambda text: text[:40], "Unterminated string"),
        (lambda text: "{}", "'body'"),
    ],
)
def test_a_damaged_record_is_an_error_and_nothing_is_written(
    tmp_path: Path, damage: Callable[[str], str], reason: str
) -> None:
    directory = directory_at(tmp_path)
    directory.commit(FIRST, 0, staged(directory, {0: "a\n"}))
    record = tmp_path / "_cpu_log" / "record.json"
    record.write_text(damage(record.read_text()))
    with pytest.raises(RuntimeError) as failed:
        directory.commit(FIRST, 1, staged(directory, {0: "b\n"}))
    assert str(failed.value).startswith(f"the commit record {record} is damaged ({reason}")
    assert str(failed.value).endswith(f"move {tmp_path} away and begin a new directory")
    assert visible(tmp_path) == {"data.0.csv": "a\n"}


def test_recovery_refuses_staged_bytes_that_rotted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = directory_at(tmp_path)
    directory.commit(FIRST, 0, staged(directory, {0: "a\n"}))
    commit_to_a_full_disk(monkeypatch, directory, {0: "a\n"}, room=0)
    [name] = staged_names(tmp_path)
    path = tmp_path / "_cpu_log" / "staged" / name
    path.write_text("b\n")
    with pytest.raises(RuntimeError) as failed:
        directory.recover()
    assert str(failed.value) == (
        f"the staged file {path} is damaged: its checksum does not match the record"
    )
    assert visible(tmp_path) == {"data.0.csv": "a\n"}


# ---- owners ----------------------------------------------------------------------------------


def test_a_second_running_query_fails_and_is_told_who_was_first(tmp_path: Path) -> None:
    directory = directory_at(tmp_path, running=(FIRST,))
    directory.commit(FIRST, 0, staged(directory, {0: "a\n"}))
    with pytest.raises(RuntimeError) as failed:
        directory.commit(OTHER, 0, staged(directory, {0: "b\n"}, OTHER.query))
    assert str(failed.value) == (
        f"{tmp_path} is being written by query query-a (run run-1, process 1 on {HERE}), so "
        f"query query-b (run run-2, process 2 on {HERE}) cannot write to it; "
        "stop the other query first, or choose another directory"
    )
    assert visible(tmp_path) == {"data.0.csv": "a\n"}
    assert directory.commit(FIRST, 1, staged(directory, {0: "c\n"}))


def test_an_owner_that_has_ended_gives_way(tmp_path: Path) -> None:
    directory = directory_at(tmp_path)
    directory.commit(FIRST, 0, staged(directory, {0: "a\n"}))
    assert directory.commit(OTHER, 0, staged(directory, {0: "b\n"}, OTHER.query))


def test_what_another_host_has_staged_out_of_sight_is_named(tmp_path: Path) -> None:
    directory = directory_at(tmp_path)
    reports = staged(directory, {0: "a\n"})
    directory.check_sees(reports, "worker2")
    (tmp_path / "_cpu_log" / "staged" / reports[0].name).unlink()
    with pytest.raises(RuntimeError) as failed:
        directory.check_sees(reports, "worker2")
    assert str(failed.value) == (
        f"host worker2 does not see {tmp_path} as this machine, {HERE}, does: its lines are not "
        "here; put it on storage that all workers share"
    )


# ---- kill -9 ---------------------------------------------------------------------------------

PARTITIONS, LINES = 3, 2000
WRITER = f"""
import os, sys
from pathlib import Path
from tutorial_pkg.connectors.cpu_log.publish import PublishedDirectory
from tutorial_pkg.connectors.cpu_log.query_owner import Owner

directory, done = PublishedDirectory(sys.argv[1]), Path(sys.argv[2])
owner = Owner("query-a", sys.argv[3], os.uname().nodename, 1, 0.5)
batch = int(done.read_text()) + 1 if done.exists() else 0
while batch < int(sys.argv[4]):
    reports = []
    for partition in range({PARTITIONS}):
        stage = directory.stage("query-a", partition)
        for line in range({LINES}):
            stage.write(memoryview(f"{{batch}}-{{partition}}-{{line}}\\n".encode()))
        reports += stage.finish()
    directory.commit(owner, batch, reports)
    draft = done.with_suffix(".draft")
    draft.write_text(str(batch))
    draft.replace(done)
    batch += 1
"""


def expected_files(batches: int) -> dict[str, str]:
    return {
        f"data.{partition}.csv": "".join(
            f"{batch}-{partition}-{line}\n" for batch in range(batches) for line in range(LINES)
        )
        for partition in range(PARTITIONS)
    }


@pytest.fixture
def write_batches(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen]]:
    """Starts a process that publishes numbered batches and notes each done, as Spark does."""
    started = []

    def start(run: int, batches: int, crash_at: str = "") -> subprocess.Popen:
        words = [tmp_path / "out", tmp_path / "done", f"run-{run}", batches]
        child = subprocess.Popen(
            [sys.executable, "-c", WRITER, *map(str, words)], env={**os.environ, CRASH_AT: crash_at}
        )
        started.append(child)
        return child

    yield start
    for child in started:
        child.kill()
        child.wait()


@pytest.mark.parametrize("point", ["staging", "staged", "recorded", "half_applied", "applied"])
def test_killed_at_any_point_every_line_is_there_once(
    tmp_path: Path, write_batches: Callable[..., subprocess.Popen], point: str
) -> None:
    assert write_batches(run=1, batches=1).wait(30) == 0
    marker = tmp_path / "arrived"
    killed = write_batches(run=2, batches=3, crash_at=f"{point}@{marker}")
    wait_until(marker.exists, 30, f"the drill's arrival at {point!r}")
    before = visible(tmp_path / "out")
    killed.kill()
    assert killed.wait() == -signal.SIGKILL
    assert write_batches(run=3, batches=3).wait(30) == 0
    after = visible(tmp_path / "out")
    assert after == expected_files(3)
    assert staged_names(tmp_path / "out") == []
    assert all(after[name].startswith(text) for name, text in before.items()), "taken back"


def test_killed_thirty_times_at_random_every_line_is_there_once(
    tmp_path: Path, write_batches: Callable[..., subprocess.Popen]
) -> None:
    """A tailing reader looks on: what it has seen of a file is always the file's beginning."""
    moment = random.Random(20261121)
    seen: dict[str, str] = {}
    for run in range(30):
        child = write_batches(run, batches=100_000)
        goal = _done(tmp_path) + moment.randrange(1, 4)
        wait_until(lambda goal=goal: _done(tmp_path) >= goal, 30, f"batch {goal}")
        _spin(moment.randrange(20_000))
        child.kill()
        child.wait()
        now = visible(tmp_path / "out")
        assert all(now[name].startswith(text) for name, text in seen.items()), "taken back"
        seen = now
    batches = _done(tmp_path) + 2
    assert write_batches(30, batches).wait(30) == 0
    assert visible(tmp_path / "out") == expected_files(batches)


def _done(tmp_path: Path) -> int:
    done = tmp_path / "done"
    return int(done.read_text()) if done.exists() else -1


def _spin(turns: int) -> None:
    """Pass a random while, far shorter than a batch, without asking a clock to sleep."""
    for _ in range(turns):
        pass
