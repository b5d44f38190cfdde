"""The commit protocol: what is published, once, and what is refused."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from tests.unit.cpu_log.committing import FIRST, HERE, OTHER, Log
from tutorial_pkg.connectors.cpu_log import publish
from tutorial_pkg.connectors.cpu_log.data_files import file_name
from tutorial_pkg.connectors.cpu_log.query_owner import Owner

# ---- publishing ------------------------------------------------------------------------------


def test_batches_append_to_one_file_per_partition(log: Log) -> None:
    assert log.add(0, {0: "a\n", 1: "b\n"})
    assert log.add(1, {0: "c\n"})
    assert log.visible() == {"0": "a\nc\n", "1": "b\n"}
    assert log.left() == []
    assert (file_name(0), file_name(3, 2)) == ("data.0.csv", "data.3.2.csv")


def test_a_staged_line_is_invisible_until_its_commit(log: Log) -> None:
    reports = log.staged({0: "a\n"})
    assert log.visible() == {}
    log.commit(FIRST, 0, reports)
    assert log.visible() == {"0": "a\n"}


def test_a_batch_of_the_same_query_is_published_once(log: Log) -> None:
    log.add(7, {0: "first\n"}, plan="as planned")
    assert not log.add(7, {0: "again\n"}, plan="as planned")
    assert log.visible() == {"0": "first\n"}
    assert log.left() == []


@pytest.mark.parametrize(("batch", "plan"), [(7, "anew"), (6, "anew"), (6, "as planned")])
def test_a_batch_that_was_planned_anew_is_an_error(log: Log, batch: int, plan: str) -> None:
    """Skipped, new lines would be lost; published, old ones would come twice."""
    log.add(7, {0: "first\n"}, plan="as planned")
    for _ in range(2):
        with pytest.raises(RuntimeError) as failed:
            log.add(batch, {0: "new\n"}, plan=plan)
    assert str(failed.value) == (
        f"batch {batch} of query query-a was planned anew, but {log.path} has its batches up to 7 "
        "already: its checkpoint was set back, and lines may come that are there. Restore the "
        "checkpoint; or set `failOnDuplicates` to false, so that the query goes on, loses nothing, "
        "and may repeat lines of these batches"
    )
    assert log.visible() == {"0": "first\n"}


def test_where_duplicates_are_allowed_a_batch_planned_anew_is_published(tmp_path: Path) -> None:
    log = Log(tmp_path, fail_on_duplicates=False)
    log.add(7, {0: "seven\n"}, plan="7")
    assert log.add(6, {0: "new six\n"}, plan="6, anew")
    assert not log.add(6, {0: "new six\n"}, plan="6, anew")
    assert log.add(7, {0: "new seven\n"}, plan="7, anew")
    assert log.visible() == {"0": "seven\nnew six\nnew seven\n"}


@pytest.mark.parametrize(("before", "now"), [(None, "known"), ("known", None), (None, None)])
@pytest.mark.parametrize("batch", [7, 6])
def test_where_no_plan_is_known_the_number_decides(
    log: Log, batch: int, before: str | None, now: str | None
) -> None:
    log.add(7, {0: "first\n"}, plan=before)
    assert not log.add(batch, {0: "again\n"}, plan=now)
    assert log.visible() == {"0": "first\n"}


def test_batch_0_of_a_new_query_is_not_mistaken_for_the_old_one(log: Log) -> None:
    log.add(0, {0: "old\n"})
    assert log.add(0, {0: "new\n"}, OTHER)
    assert not log.add(0, {0: "old\n"})
    assert log.visible() == {"0": "old\nnew\n"}


def test_a_job_without_batches_is_never_mistaken_for_another(log: Log) -> None:
    assert all(log.add(None, {0: "a\n"}) for _ in range(2))
    assert log.visible() == {"0": "a\na\n"}


def test_an_empty_batch_leaves_no_trace(tmp_path: Path) -> None:
    log = Log(tmp_path / "new")
    assert log.stage(FIRST.query, 0).finish() == []
    assert not log.commit(FIRST, 0, [])
    assert not (tmp_path / "new").exists()


def test_a_hundred_batches_leave_one_file_per_partition_and_a_record_of_one_batch(log: Log) -> None:
    sizes = []
    for batch in range(100):
        log.add(batch, {0: f"{batch:04}\n"})
        sizes.append((log.path / "_cpu_log" / "record.json").stat().st_size)
    assert log.visible() == {"0": "".join(f"{i:04}\n" for i in range(100))}
    assert max(sizes) - min(sizes) < 20  # digits of the batch and of the length
    left = {path.name for path in (log.path / "_cpu_log").rglob("*")}
    assert left == {"lock", "record.json", "staged"}


def test_a_file_that_would_grow_past_the_limit_is_followed_by_another(tmp_path: Path) -> None:
    log = Log(tmp_path, max_file_bytes=5)
    for batch, text in enumerate(["aa\n", "b\n", "cc\n", "ddddddd\n", "e\n"]):
        log.add(batch, {0: text})
    assert log.visible() == {"0": "aa\nb\n", "0.1": "cc\n", "0.2": "ddddddd\n", "0.3": "e\n"}


def test_one_task_that_writes_past_the_limit_fills_several_files(tmp_path: Path) -> None:
    log = Log(tmp_path, max_file_bytes=5)
    stage = log.stage(FIRST.query, 0)
    for text in ("aa\n", "bb\n", "c\n"):
        stage.write(text.encode())
    log.commit(FIRST, 0, stage.finish())
    assert log.visible() == {"0": "aa\n", "0.1": "bb\nc\n"}


# ---- attempts that fail, lose or come late ---------------------------------------------------


def test_a_losing_attempt_is_swept_even_when_it_finishes_late(log: Log) -> None:
    loser = log.stage(FIRST.query, 0)
    loser.write(b"loser\n")
    log.add(0, {0: "winner\n"})
    loser.finish()
    log.staged({0: "late\n"})
    assert len(log.left()) == 1
    log.add(1, {0: "next\n"})
    assert log.visible() == {"0": "winner\nnext\n"}
    assert log.left() == []


def test_an_attempt_that_writes_on_after_abort_is_never_published(log: Log) -> None:
    early, late = log.stage(FIRST.query, 0), log.stage(FIRST.query, 1)
    early.write(b"before abort\n")
    log.sweep(FIRST.query)
    early.write(b"after abort\n")
    late.write(b"after abort\n")
    assert early.finish() and late.finish()
    log.add(0, {0: "retried\n"})
    assert log.visible() == {"0": "retried\n"}
    assert log.left() == []


def test_a_discarded_attempt_leaves_nothing(log: Log) -> None:
    stage = log.stage(FIRST.query, 0)
    stage.write(b"a\n")
    stage.discard()
    assert log.left() == []


def test_another_querys_orphans_are_left_alone(log: Log) -> None:
    [orphan] = log.staged({0: "b\n"}, OTHER.query)
    log.staged({0: "a\n"})
    log.sweep(FIRST.query)
    assert log.left() == [orphan.name]


def test_a_batch_job_that_was_killed_leaves_nothing_to_the_next_one(log: Log) -> None:
    me = psutil.Process()
    jobs = [f"{HERE}-4194305-1", "elsewhere-4194305-1", f"{HERE}-{me.pid}-{me.create_time():.0f}"]
    left = [log.staged({0: "b\n"}, f"batch-{job}-{'0' * 32}")[0].name for job in jobs]
    log.add(0, {0: "a\n"})
    assert log.left() == sorted(left[1:]), "who may still run, keeps what it has"


# ---- what is not ours ------------------------------------------------------------------------


def test_a_foreign_file_is_not_touched(log: Log) -> None:
    foreign = log.path / file_name(1)
    foreign.write_text("mine\n")
    with pytest.raises(RuntimeError) as failed:
        log.add(0, {0: "a\n", 1: "b\n"})
    assert str(failed.value) == (
        f"{foreign} has 5 bytes instead of 0: it was not written by this sink; "
        "move it away, or choose another directory"
    )
    assert log.visible() == {"1": "mine\n"}
    foreign.unlink()
    assert log.add(0, {0: "a\n", 1: "b\n"})


@pytest.mark.parametrize("name", [file_name(0), "_cpu_log", "_cpu_log/lock", "_cpu_log/staged"])
def test_a_symbolic_link_is_not_followed(tmp_path: Path, name: str) -> None:
    """Where others may write, a link could lead to any file of the user who runs the query."""
    victim, out = tmp_path / "victim", tmp_path / "out"
    victim.mkdir() if name in ("_cpu_log", "_cpu_log/staged") else victim.touch()
    (out / name).parent.mkdir(parents=True)
    (out / name).symlink_to(victim)
    with pytest.raises((OSError, RuntimeError)) as failed:
        Log(out).add(0, {0: "a\n"})
    assert str(out / name) in str(failed.value)
    assert "symbolic link" in str(failed.value)
    assert victim.read_text() == "" if victim.is_file() else not list(victim.iterdir())


def test_the_state_is_private_and_the_lines_are_as_the_umask_says(tmp_path: Path) -> None:
    before, out = os.umask(0o022), tmp_path / "out"
    try:
        Log(out).add(0, {0: "a\n"})
    finally:
        os.umask(before)
    modes = {path: path.stat().st_mode & 0o777 for path in (out, *out.rglob("*"))}
    assert {str(path.relative_to(out)): mode for path, mode in modes.items()} == {
        ".": 0o755,
        file_name(0): 0o644,
        "_cpu_log": 0o700,
        "_cpu_log/staged": 0o700,
        "_cpu_log/lock": 0o600,
        "_cpu_log/record.json": 0o600,
    }


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda text: text.replace("query-a", "query-x"), "its checksum does not match"),
        (lambda text: text[:40], "Unterminated string"),
        (lambda text: "{}", "'body'"),
    ],
)
def test_a_damaged_record_is_an_error_and_nothing_is_written(
    log: Log, damage: Callable[[str], str], reason: str
) -> None:
    log.add(0, {0: "a\n"})
    record = log.path / "_cpu_log" / "record.json"
    record.write_text(damage(record.read_text()))
    with pytest.raises(RuntimeError) as failed:
        log.add(1, {0: "b\n"})
    assert str(failed.value).startswith(f"the commit record {record} is damaged ({reason}")
    assert str(failed.value).endswith(f"move {log.path} away and begin a new directory")
    assert log.visible() == {"0": "a\n"}


# ---- owners ----------------------------------------------------------------------------------


@pytest.fixture
def living() -> Owner:
    """A run of another query, in a process that lives: this one."""
    me = psutil.Process()
    return Owner("query-a", "run-1", HERE, me.pid, me.create_time())


def test_a_second_query_fails_when_the_first_commits_again(log: Log, living: Owner) -> None:
    log.add(0, {0: "0\n"}, living)
    with ThreadPoolExecutor(1) as thread:
        second = thread.submit(log.add, 0, {0: "b\n"}, OTHER)
        batches = 0
        while not second.done():
            batches += 1
            assert log.add(batches, {0: f"{batches}\n"}, living)
    assert str(second.exception()) == (
        f"{log.path} is being written by query query-a (run run-1, process {os.getpid()} on "
        f"{HERE}), so query query-b (run run-2, process 2 on {HERE}) cannot write to it; stop the "
        "other query first, or choose another directory"
    )
    assert log.visible() == {"0": "".join(f"{batch}\n" for batch in range(batches + 1))}


def test_a_query_that_was_stopped_holds_up_another_one_for_a_lease(
    log: Log, living: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publish, "LEASE_SECONDS", 0.2)
    log.add(0, {0: "a\n"}, living)
    committed = (log.path / "_cpu_log" / "record.json").stat().st_mtime
    assert log.add(0, {0: "b\n"}, OTHER)
    assert (log.path / "_cpu_log" / "record.json").stat().st_mtime > committed + 0.1
    assert log.visible() == {"0": "a\nb\n"}


def test_a_lease_from_a_clock_that_is_ahead_is_no_longer(
    log: Log, living: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a server of shared storage."""
    waited: list[float] = []
    monkeypatch.setattr(publish, "wait_for", lambda _, seconds: waited.append(seconds))
    log.add(0, {0: "a\n"}, living)
    os.utime(log.path / "_cpu_log" / "record.json", (4e9, 4e9))
    log.add(0, {0: "b\n"}, OTHER)
    assert waited == [publish.LEASE_SECONDS]


def test_nobody_waits_for_an_earlier_run_or_a_dead_one(
    log: Log, living: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publish, "wait_for", lambda *_, **__: pytest.fail("waited"))
    for batch, owner in enumerate((OTHER, living, FIRST)):
        assert log.add(batch, {0: f"{batch}\n"}, owner)
    assert log.visible() == {"0": "0\n1\n2\n"}


def test_what_another_host_has_staged_out_of_sight_is_named(log: Log) -> None:
    reports = log.staged({0: "a\n"})
    log.check_sees(reports, "worker2")
    (log.path / "_cpu_log" / "staged" / reports[0].name).unlink()
    with pytest.raises(RuntimeError) as failed:
        log.check_sees(reports, "worker2")
    assert str(failed.value) == (
        f"host worker2 does not see {log.path} as this machine, {HERE}, does: its lines are not "
        "here; put it on storage that all workers share"
    )
