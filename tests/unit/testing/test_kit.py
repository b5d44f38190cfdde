"""The parts of the conformance kit that need no Spark."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import psutil
import pytest
from pyspark.sql import Row

from tutorial_pkg.processes.query_process import wait_for_end
from tutorial_pkg.testing import (
    SINK_PROMISES,
    SOURCE_PROMISES,
    Broken,
    Report,
    StreamSource,
    Verdict,
    queries,
)
from tutorial_pkg.testing import processes as processes_module
from tutorial_pkg.testing.examination import chosen
from tutorial_pkg.testing.processes import DAEMON, SparkProcesses, open_paths
from tutorial_pkg.testing.promise import MachineTooSlow, check_names, check_once, failure
from tutorial_pkg.testing.queries import (
    Ledger,
    SourceQuery,
    collected_elsewhere,
    forget_last_commit,
    offsets,
)
from tutorial_pkg.testing.sink_trial import without_repeats
from tutorial_pkg.testing.source_promises import went_back
from tutorial_pkg.testing.trial import Trial

PROMISES = [*SOURCE_PROMISES, *SINK_PROMISES]


def test_the_page_on_formats_has_every_promise_as_it_is() -> None:
    """Else it was made by an earlier kit: run `make conformance`."""
    page = (Path(__file__).parents[3] / "docs" / "conformance.md").read_text()
    for promise in PROMISES:
        assert f"| **{promise.name}**: {promise.sentence} |" in page


@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.name)
def test_a_promise_says_what_it_means_how_it_is_tried_and_what_to_do(promise) -> None:
    for text in (promise.sentence, promise.how, promise.remedy):
        assert text.endswith("."), text


def test_rows_that_came_once_are_right() -> None:
    check_once([1, 2, 2], [2, 1, 2], "now")


def test_rows_that_are_missing_and_rows_that_came_twice_are_named() -> None:
    with pytest.raises(Broken) as broken:
        check_once(range(10), [0, 0, 1, 2], "after a restart")
    assert str(broken.value) == (
        "after a restart: of 10 rows 7 (3, 4, 5, 6, 7 …) missing and 1 (0) too many"
    )


@pytest.mark.parametrize(
    ("before", "after", "back"),
    [
        (5, 4, True),
        (4, 5, False),
        (5, 5, False),
        ({"a": 1, "b": 2}, {"a": 1, "b": 1}, True),
        ({"a": 1, "b": 2}, {"a": 2, "b": 1}, False),  # one file read on, another one new
        ({"a": 1}, {"b": 0}, False),  # not the same things
        ({"file": "x", "next": 9}, {"file": "y", "next": 0}, False),
        ([{"id": "x", "next": 9}], [{"id": "x", "next": 3}], True),
    ],
)
def test_what_going_back_means(before, after, back: bool) -> None:
    assert went_back(before, after) is back


def test_a_ledger_keeps_attempts_and_counts_the_last_one(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger")
    ledger.add(0, [1, 2])
    ledger.add(1, [3])
    ledger.add(1, [3, 4])
    assert ledger.attempts() == {0: [[1, 2]], 1: [[3], [3, 4]]}
    assert ledger.rows() == [1, 2, 3, 4]


def test_offsets_come_in_the_order_of_batches(tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    for batch in (0, 2, 10):
        (tmp_path / "offsets" / f"{batch}").write_text(f'v1\n{{}}\n{{"next": {batch}}}')
        (tmp_path / "offsets" / f".{batch}.crc").touch()
    assert offsets(tmp_path) == [{"next": 0}, {"next": 2}, {"next": 10}]


def test_only_the_last_commit_is_forgotten(tmp_path: Path) -> None:
    (tmp_path / "commits").mkdir()
    for name in ("9", ".9.crc", "10", ".10.crc"):
        (tmp_path / "commits" / name).touch()
    forget_last_commit(tmp_path)
    assert {file.name for file in (tmp_path / "commits").iterdir()} == {"9", ".9.crc"}


class Batch:
    """Fails with these errors, one after the other, and has one row then."""

    sparkSession = None

    def __init__(self, *errors: str) -> None:
        self.errors = list(errors)

    def collect(self) -> list[Row]:
        if self.errors:
            raise RuntimeError(self.errors.pop(0))
        return [Row(number=1)]


@pytest.fixture
def no_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queries, "SparkProcesses", lambda _: Mock())


LOST = "SparkException: Python worker exited unexpectedly (crashed)"


@pytest.mark.usefixtures("no_workers")
def test_a_batch_is_read_again_when_a_worker_was_lost() -> None:
    assert collected_elsewhere(Batch(LOST, LOST)) == [1]


@pytest.mark.usefixtures("no_workers")
@pytest.mark.parametrize("errors", [["LookupError: once"], [LOST, "LookupError"], [LOST] * 3])
def test_any_other_error_and_workers_lost_each_time_are_raised(errors: list[str]) -> None:
    with pytest.raises(RuntimeError, match=errors[-1].split("(")[0]):
        collected_elsewhere(Batch(*errors))


class Rows(Batch):
    """Has these numbers."""

    def __init__(self, *numbers: int) -> None:
        self.numbers = numbers

    def collect(self) -> list[Row]:
        return [Row(number=number) for number in self.numbers]


def test_a_batch_without_rows_is_not_the_one_that_fails(tmp_path: Path) -> None:
    """A new query may begin with an empty one, before anything can be fed."""
    query = SourceQuery("rate", {}, None, None, tmp_path, tmp_path / "ledger", fails=True)
    query._note(Rows(), 0)
    with pytest.raises(queries.ToldToFail):
        query._note(Rows(1), 1)
    query._note(Rows(1), 1)
    assert Ledger(query.ledger).attempts() == {0: [[]], 1: [[1], [1]]}


def test_a_batch_that_was_to_fail_and_never_came_is_told() -> None:
    trial = Mock(query=Mock(awaitTermination=lambda seconds: False))
    with pytest.raises(Broken, match=r"^the batch that was made to fail had not come after 120 s$"):
        Trial.failed(trial)


def test_rows_must_wait_for_available_now() -> None:
    [promise] = [promise for promise in SOURCE_PROMISES if promise.name == "available_now"]
    port = StreamSource("socket", feed=print, feed_when_stopped=False)
    reason = "it cannot be restarted, nor fed while no query runs: no row can wait"
    assert promise.why_not(port, {}) is None
    assert promise.why_not(replace(port, restarts=False), {}) == reason
    assert promise.why_not(replace(port, restarts=False, feed=None), {}) == reason
    assert promise.why_not(replace(port, restarts=False, feed_when_stopped=True), {}) is None


def test_what_is_not_claimed_and_what_is_not_described_is_not_tried() -> None:
    source = StreamSource("rate", not_claimed={"restart": "it is not said to"})
    reasons = {
        promise.name: promise.why_not(source, source.not_claimed) for promise in SOURCE_PROMISES
    }
    assert reasons["restart"] == "it is not said to"
    assert reasons["limit"] == "`limit` is not described"
    assert reasons["idle"] == "`feed` is not described"
    assert reasons["rows_fit_schema"] == "no class in Python: nobody can look inside"
    assert reasons["every_row_once"] is None


def test_a_promise_that_nobody_knows_is_refused() -> None:
    with pytest.raises(ValueError, match="`without`: no promise is called 'restarts'; there are "):
        check_names({"restarts"}, SOURCE_PROMISES, "`without`")


@pytest.mark.parametrize(
    ("text", "error", "what"),
    [
        ("ValueError: no", "a JVM's trace", Broken),
        ("no", "SparkException: Python worker failed to connect back.", MachineTooSlow),
        # The exception itself may say less than the line that was found in its causes.
        (
            "SocketTimeoutException: Timed out while waiting for the Python worker to connect back",
            "[STREAM_FAILED]",
            MachineTooSlow,
        ),
    ],
)
def test_a_machine_that_is_too_slow_breaks_no_promise(text: str, error: str, what: type) -> None:
    told = failure(text, error)
    assert type(told) is what
    assert str(told) == text


def test_promises_are_chosen_by_name_in_their_own_order() -> None:
    names = [promise.name for promise in SOURCE_PROMISES]
    assert [p.name for p in chosen(SOURCE_PROMISES, (), ())] == names
    assert [p.name for p in chosen(SOURCE_PROMISES, names[1:], ())] == names[:1]
    assert [p.name for p in chosen(SOURCE_PROMISES, (), ["killed", "restart"])] == [
        "restart",
        "killed",
    ]


def test_one_name_that_is_no_list_is_refused() -> None:
    with pytest.raises(ValueError) as error:
        chosen(SOURCE_PROMISES, (), "restart")
    assert str(error.value) == "`only` takes a list of names, not 'restart'"


def test_at_least_once_overlooks_repeated_rows_and_nothing_else() -> None:
    assert sorted(without_repeats(["a", "a", "b"], ["a", "b", "c"])) == ["a", "b"]
    assert without_repeats(["strange", "strange"], ["a"]) == ["strange", "strange"]


REPORT = Report(
    "some<format>",
    [
        Verdict("restart", "It goes on.", "✗", "3 rows < 4", "Mend it."),
        Verdict("killed", "Nothing is lost.", "–", "it does not say so"),
        Verdict("every_row_once", "All come.", "✓"),
    ],
    12.3,
)


def test_a_report_in_a_terminal() -> None:
    assert str(REPORT).splitlines() == [
        "some<format>: 1 kept, 1 broken, 1 not claimed",
        "  ✗ restart: It goes on.",
        "      3 rows < 4",
        "      → Mend it.",
        "  – killed: Nothing is lost.",
        "      it does not say so",
        "  ✓ every_row_once: All come.",
    ]
    assert REPORT.broken == ["restart"]


def test_a_report_in_a_notebook() -> None:
    page = REPORT._repr_html_()
    assert page.count("<tr>") == 3
    assert "some&lt;format&gt;" in page
    assert "<td>3 rows &lt; 4<br>→ Mend it.</td>" in page


@pytest.mark.skipif(sys.platform != "linux", reason="psutil leaves them out")
def test_an_open_file_is_seen_also_when_it_was_deleted(tmp_path: Path) -> None:
    with (tmp_path / "there").open("w"), (tmp_path / "gone").open("w"):
        (tmp_path / "gone").unlink()
        found = open_paths(psutil.Process())
        assert {"there", "gone"} == {path.name for path in found if path.is_relative_to(tmp_path)}


# ---- What a query leaves behind ------------------------------------------------------------------

# It forks one, and that one forks another; each tells its number, and waits.
FAMILY = """
import os, time
for _ in range(2):
    if os.fork():
        break
os.write(1, b"%d\\n" % os.getpid())
time.sleep(60)
"""


@pytest.fixture
def family() -> Iterator[list[psutil.Process]]:
    """A daemon of Spark's, a worker of it, and what a task has forked there: all called alike."""
    command = [sys.executable, "-c", FAMILY, DAEMON]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as daemon:
        assert daemon.stdout is not None
        numbers = {int(daemon.stdout.readline()) for _ in range(3)}
        found = [psutil.Process(daemon.pid)]
        found += found[0].children(recursive=True)
        assert {process.pid for process in found} == numbers
        yield found
        for process in found:
            if process.is_running():
                process.kill()


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> SparkProcesses:
    """Those below this process, as if it were the JVM."""
    monkeypatch.setattr(processes_module, "ENDING", 0.2)
    spark = Mock()
    spark.sparkContext._jvm.ProcessHandle.current().pid.return_value = os.getpid()
    return SparkProcesses(spark)


def among(family: list[psutil.Process], processes: SparkProcesses) -> set[psutil.Process]:
    """Earlier tests of this process may have started others: a session that goes on."""
    return processes.started() & set(family)


def test_what_a_task_has_forked_is_left_and_what_spark_has_forked_is_not(
    family: list[psutil.Process], processes: SparkProcesses
) -> None:
    daemon, worker, helper = family
    [told] = processes.end_survivors(among(family, processes))
    assert told.startswith(f"process {helper.pid} (")
    assert wait_for_end([helper], 5) == []
    assert wait_for_end([daemon, worker], 0) == [daemon, worker]


def test_what_a_task_has_forked_is_left_also_when_its_worker_has_ended(
    family: list[psutil.Process], processes: SparkProcesses
) -> None:
    daemon, worker, helper = family
    started = among(family, processes)
    worker.kill()
    [told] = processes.end_survivors(started)
    assert told.startswith(f"process {helper.pid} (")
    assert wait_for_end([helper], 5) == []
    assert wait_for_end([daemon], 0) == [daemon]
