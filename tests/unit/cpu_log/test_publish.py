"""The commit protocol: what is published, once, and what is refused."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import BinaryIO

import pytest

from tutorial_pkg.connectors.cpu_log import publish
from tutorial_pkg.connectors.cpu_log.publish import PublishedDirectory
from tutorial_pkg.connectors.cpu_log.record import Batch, Staged, file_name
from tutorial_pkg.connectors.cpu_log.sink import Stage
from tutorial_pkg.core import disk
from tutorial_pkg.durable_log.lock import FileLock

QUERY, OTHER = "query-a", "query-b"


class Log(PublishedDirectory):
    def stage(self, query: str = QUERY, partition: int = 0) -> Stage:
        return Stage(self, query, partition)

    def staged(self, texts: dict[int, str], query: str = QUERY) -> list[Staged]:
        """Stage a text for each partition."""
        files: list[Staged] = []
        for partition, text in texts.items():
            stage = self.stage(query, partition)
            stage.write(text.encode())
            files += stage.finish()
        return files

    def add(
        self,
        number: int | None,
        texts: dict[int, str],
        query: str = QUERY,
        run: str = "run",
        plan: str | None = None,
    ) -> bool:
        """Stage and commit a batch. Return whether it was published."""
        return self.commit(Batch(query, run, number, plan), self.staged(texts, query))

    def visible(self) -> dict[str, str]:
        """Return what readers see, by the part of the name that the star in `data.*.csv` is for."""
        return {file.name[5:-4]: file.read_text() for file in sorted(self.path.glob("data.*.csv"))}

    def orphans(self) -> list[str]:
        return sorted(file.name for file in (self.path / "_cpu_log" / "staged").iterdir())


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path)


# ---- Batches -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("batch", "plan"), [(7, "new"), (6, "new"), (6, "planned")])
def test_set_back_checkpoint_is_an_error(log: Log, batch: int, plan: str) -> None:
    log.add(7, {0: "first\n"}, plan="planned")
    for _ in range(2):
        with pytest.raises(RuntimeError, match=f"{log.path}.* batch {batch} .*`failOnDuplicates`"):
            log.add(batch, {0: "new\n"}, plan=plan)
    assert log.visible() == {"0": "first\n"}


def test_set_back_batch_may_be_published(tmp_path: Path) -> None:
    log = Log(tmp_path, fail_on_duplicates=False)
    log.add(7, {0: "seven\n"}, plan="7")
    assert log.add(6, {0: "new six\n"}, plan="new 6")
    assert not log.add(6, {0: "new six\n"}, plan="new 6")
    assert log.add(7, {0: "new seven\n"}, plan="new 7")
    assert log.visible() == {"0": "seven\nnew six\nnew seven\n"}


@pytest.mark.parametrize("before", [None, "planned"])
@pytest.mark.parametrize("now", [None, "planned"])
def test_repeated_batch_is_published_once(log: Log, before: str | None, now: str | None) -> None:
    """If one of the plans is unknown, the number decides."""
    log.add(7, {0: "first\n"}, plan=before)
    assert not log.add(7, {0: "again\n"}, plan=now)
    assert log.orphans() == []
    with pytest.raises(RuntimeError, match="batch 6"):
        log.add(6, {0: "again\n"}, plan=now)
    assert log.visible() == {"0": "first\n"}


def test_batch_numbers_belong_to_their_query(log: Log) -> None:
    log.add(0, {0: "a\n"})
    assert log.add(0, {0: "b\n"}, OTHER)
    assert not log.add(0, {0: "a\n"})
    assert all(log.add(None, {0: "job\n"}, f"job {number}") for number in range(2))
    assert log.visible() == {"0": "a\nb\njob\njob\n"}


def test_full_file_is_followed_by_another(tmp_path: Path) -> None:
    log = Log(tmp_path, max_file_bytes=5)
    for batch, text in enumerate(["aa\n", "b\n", "cc\n", "ddddddd\n"]):
        log.add(batch, {0: text})
    stage = log.stage()
    for text in ("ee\n", "ff\n", "g\n"):
        stage.write(text.encode())
    log.commit(Batch(QUERY, "run", 4), stage.finish())
    assert log.visible() == {
        "0": "aa\nb\n",
        "0.1": "cc\n",
        "0.2": "ddddddd\n",
        "0.3": "ee\n",
        "0.4": "ff\ng\n",
    }


# ---- Attempts that fail or come late -------------------------------------------------------------


def test_late_attempt_is_never_published(log: Log) -> None:
    late = log.stage()
    late.write(b"late\n")
    log.sweep(QUERY)  # as in `abort`
    late.write(b"later\n")
    late.finish()
    log.add(0, {0: "winner\n"})
    assert log.visible() == {"0": "winner\n"}
    assert log.orphans() == []


def test_own_and_old_orphans_are_deleted(log: Log) -> None:
    [_], [other], [old] = (log.staged({0: "x\n"}, query) for query in (QUERY, OTHER, "killed"))
    failed = log.stage(OTHER)
    failed.write(b"x\n")
    failed.close()
    os.utime(log.path / "_cpu_log" / "staged" / old.name, (0, 0))
    log.sweep(QUERY)
    assert log.orphans() == [other.name]


# ---- Crashes and disks ---------------------------------------------------------------------------


def copy_to_full_disk(reader: BinaryIO, writer: BinaryIO, _: int) -> None:
    writer.write(reader.read(3))
    writer.flush()
    raise OSError(errno.ENOSPC, "No space left on device")


def test_commit_resumes_after_full_disk(log: Log) -> None:
    log.add(0, {0: "a\n", 1: "b\n"})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shutil, "copyfileobj", copy_to_full_disk)
        with pytest.raises(OSError, match="No space left") as failed:
            log.add(1, {0: "aaaa\n", 1: "bbbb\n", 2: "cccc\n"})
    assert failed.value.filename == str(log.path / file_name(0))
    log.sweep(QUERY)  # Spark aborts the batch, but it is recorded
    assert not log.add(1, {0: "again\n"})
    assert log.visible() == {"0": "a\naaaa\n", "1": "b\nbbbb\n", "2": "cccc\n"}
    assert log.orphans() == []


def test_recovery_syncs_what_a_crash_renamed(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a power failure could undo the renames of a batch that was reported as done."""
    log.add(0, {0: "a\n"})
    sync = disk.sync_directory

    def crash(folder: Path) -> None:
        if (log.path / file_name(1)).exists():
            raise OSError(errno.EIO, "the crash")
        sync(folder)

    with monkeypatch.context() as patch:
        patch.setattr(publish, "sync_directory", crash)
        with pytest.raises(OSError, match="the crash"):
            log.add(1, {1: "b\n"})
    synced: list[Path] = []
    monkeypatch.setattr(publish, "sync_directory", synced.append)
    assert not log.add(1, {1: "b\n"})
    assert synced == [log.path / "_cpu_log", log.path]
    assert log.visible() == {"0": "a\n", "1": "b\n"}


# ---- Other programs ------------------------------------------------------------------------------


def test_changed_or_foreign_file_is_an_error(log: Log) -> None:
    foreign = log.path / file_name(1)
    foreign.write_text("mine\n")
    with pytest.raises(RuntimeError, match=f"{foreign} has 5 bytes instead of 0"):
        log.add(0, {0: "a\n", 1: "b\n"})
    assert log.visible() == {"1": "mine\n"}
    foreign.unlink()
    assert log.add(0, {0: "a\n", 1: "b\n"})
    (log.path / file_name(0)).unlink()
    with pytest.raises(RuntimeError, match=f"{log.path / file_name(0)} has 0 bytes instead of 2"):
        log.add(1, {0: "c\n"})


def test_missing_staged_file_is_an_error(log: Log) -> None:
    [staged] = log.staged({0: "a\n"})
    path = log.path / "_cpu_log" / "staged" / staged.name
    path.unlink()
    with pytest.raises(RuntimeError, match=f"{path} has 0 bytes instead of 2"):
        log.commit(Batch(QUERY, "run", 0), [staged])
    assert log.add(0, {0: "a\n"})


def test_damaged_record_is_an_error(log: Log) -> None:
    log.add(0, {0: "a\n"})
    record = log.path / "_cpu_log" / "record.json"
    text = record.read_text()
    for damaged in (text.replace(QUERY, OTHER), text[:40], "{}"):
        record.write_text(damaged)
        with pytest.raises(RuntimeError, match=f"{record} is damaged"):
            log.add(1, {0: "b\n"})


# ---- Two queries, and earlier versions -----------------------------------------------------------


def test_younger_running_query_is_refused(log: Log) -> None:
    log.add(0, {0: "a0\n"})
    log.add(0, {0: "b0\n"}, OTHER)  # the older one may have ended
    log.add(1, {0: "a1\n"})
    with pytest.raises(RuntimeError, match=f"query {QUERY} .* before query {OTHER}"):
        log.add(1, {0: "b1\n"}, OTHER)
    assert log.add(2, {0: "a2\n"})
    assert log.visible() == {"0": "a0\nb0\na1\na2\n"}


def test_queries_may_take_turns(log: Log) -> None:
    for turn in range(3):
        for query in (QUERY, OTHER):
            for batch in (2 * turn, 2 * turn + 1):
                assert log.add(batch, {0: "x\n"}, query, run=f"run {turn}")
        assert log.add(None, {0: "job\n"}, f"job {turn}")
    assert log.visible() == {"0": 3 * ("x\n" * 4 + "job\n")}


def test_locked_directory_names_the_process(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    log.add(0, {0: "a\n"})
    monkeypatch.setattr(publish, "LOCK_SECONDS", 0.1)
    other = FileLock(log.path / "_cpu_log" / "lock", 1, "another commit")
    with pytest.raises(RuntimeError, match=f"in use by process {os.getpid()}"):
        log.add(1, {0: "b\n"})
    other.release()
    assert log.add(1, {0: "b\n"})
