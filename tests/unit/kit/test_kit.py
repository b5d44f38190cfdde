"""The parts of the conformance kit that need no Spark."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import psutil
import pytest
from pyspark.sql import Row
from pyspark.sql.datasource import DataSource

from spark_connector_tests import (
    SINK_PROMISES,
    SOURCE_PROMISES,
    Broken,
    Mistake,
    Promise,
    Report,
    StreamSink,
    StreamSource,
    Verdict,
    queries,
)
from spark_connector_tests import processes as processes_module
from spark_connector_tests.common_promises import must_survive
from spark_connector_tests.examination import IMPATIENT, Examination, chosen
from spark_connector_tests.processes import DAEMON, SparkProcesses, open_paths
from spark_connector_tests.promise import (
    HANG,
    MachineTooSlow,
    NothingWorks,
    NotTried,
    check_names,
    check_once,
    failure,
)
from spark_connector_tests.queries import (
    Ledger,
    SourceQuery,
    collected_elsewhere,
    forget_last_commit,
    offsets,
)
from spark_connector_tests.query_process import wait_for_end
from spark_connector_tests.sink_trial import Onlooker, SinkTrial, spread, without_repeats
from spark_connector_tests.source_promises import went_back
from spark_connector_tests.trap import BEHIND_A_ROW, ToldToRaise, Trap, some_of
from spark_connector_tests.trial import SECONDS, Trial
from spark_connector_tests.values import comparable
from tutorial_pkg import SinkBuilder, SourceBuilder
from tutorial_pkg.builder import Format

PROMISES = [*SOURCE_PROMISES, *SINK_PROMISES]


def test_the_page_on_formats_has_every_promise_as_it_is() -> None:
    """Else it was made by an earlier kit: run `python docs/conformance.py`."""
    page = (Path(__file__).parents[3] / "docs" / "conformance.md").read_text()
    for promise in PROMISES:
        assert f"| **{promise.name}**: {promise.sentence} |" in page


@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.name)
def test_a_promise_says_what_it_means_how_it_is_tried_and_what_to_do(promise) -> None:
    for text in (promise.sentence, promise.how, promise.remedy, promise.built or promise.remedy):
        assert text.endswith("."), text


# What only those have who write the classes themselves.
OF_CLASSES = (
    r"latestOffset|getDefaultReadLimit|initialOffset|SupportsTrigger|stream(Reader|Writer)|__init__"
    r"|TaskContext|\bself\b|`(partitions|stop|write)`"
)


@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.name)
def test_a_builders_user_is_told_of_nothing_that_only_classes_have(promise) -> None:
    assert not re.search(OF_CLASSES, promise.built or promise.remedy)


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
    one, two, three, four = ((number, 10 * number) for number in range(1, 5))
    ledger.add(0, [one, two])
    ledger.add(1, [three])
    ledger.add(1, [three, four])
    assert ledger.attempts() == {0: [[one, two]], 1: [[three], [three, four]]}
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

    def select(self, *columns: str) -> Batch:
        return self

    def collect(self) -> list[Row]:
        if self.errors:
            raise RuntimeError(self.errors.pop(0))
        return [Row(number=1, print=10)]


@pytest.fixture
def no_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queries, "SparkProcesses", lambda _: Mock())


LOST = "SparkException: Python worker exited unexpectedly (crashed)"


@pytest.mark.usefixtures("no_workers")
def test_a_batch_is_read_again_when_a_worker_was_lost() -> None:
    assert collected_elsewhere(Batch(LOST, LOST)) == [(1, 10)]


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
        return [Row(number=number, print=10) for number in self.numbers]


def test_a_batch_without_rows_is_not_the_one_that_fails(tmp_path: Path) -> None:
    """A new query may begin with an empty one, before anything can be fed."""
    query = SourceQuery("rate", {}, None, None, tmp_path, tmp_path / "ledger")
    Ledger(query.ledger)
    query.fails.touch()
    query._note(Rows(), 0)
    with pytest.raises(queries.ToldToFail):
        query._note(Rows(1), 1)
    query._note(Rows(1), 1)
    assert Ledger(query.ledger).attempts() == {0: [[]], 1: [[(1, 10)], [(1, 10)]]}


def test_a_batch_that_was_to_fail_and_never_came_is_told() -> None:
    trial = Mock(query=Mock(awaitTermination=lambda seconds: False), seconds=7)
    with pytest.raises(Broken, match=r"^the batch that was to fail had not come after 7 s$"):
        Trial.failed(trial)


def test_rows_must_wait_for_available_now() -> None:
    [promise] = [promise for promise in SOURCE_PROMISES if promise.name == "available_now"]
    port = StreamSource("socket", feed=print, feed_when_stopped=False)
    reason = "it cannot be restarted, nor fed while no query runs: no row can wait"
    assert promise.why_not(port) is None
    assert promise.why_not(replace(port, restarts=False)) == reason
    assert promise.why_not(replace(port, restarts=False, feed=None)) == reason
    assert promise.why_not(replace(port, restarts=False, feed_when_stopped=True)) is None


def test_what_is_not_claimed_and_what_is_not_described_is_not_tried() -> None:
    source = StreamSource("rate", not_claimed={"restart": "it is not said to"})
    reasons = {promise.name: promise.why_not(source) for promise in SOURCE_PROMISES}
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
        Verdict("killed", "Nothing is lost.", "–", "it does not say so"),
        Verdict("restart", "It goes on.", "✗", "3 rows < 4", "Mend it."),
        Verdict("unknown_option", "It is refused.", "!", "it ran", "Refuse it."),
        Verdict("every_row_once", "All come.", "✓"),
        Verdict("limit", "It is cut.", "✗", "3 rows < 4", "Cut it.", because="restart"),
    ],
    12.3,
)


def test_a_report_in_a_terminal_begins_with_what_is_broken() -> None:
    assert str(REPORT).splitlines() == [
        "some<format>: 1 kept, 1 broken (and 1 with it), 1 not claimed, 1 advised",
        "  ✗ restart: It goes on.",
        "      3 rows < 4",
        "      → Mend it.",
        "      with it: limit",
        "  – killed: Nothing is lost.",
        "      it does not say so",
        "  ! unknown_option: It is refused.",
        "      it ran",
        "      → Refuse it.",
        "  ✓ every_row_once: All come.",
    ]
    assert REPORT.broken == ["restart"]


def test_a_report_in_a_notebook() -> None:
    page = REPORT._repr_html_()
    assert page.count("<tr>") == 4
    assert "some&lt;format&gt;" in page
    assert "<td>3 rows &lt; 4<br>→ Mend it.<br>with it: limit</td>" in page


# ---- One cause, and what follows from it ---------------------------------------------------------


class Life:
    """Of a source that is `described`; a promise is a function that raises what it is told to."""

    seconds: int

    def __init__(self, **said: object) -> None:
        self.described = StreamSource(**{"format": "rate", **said})

    def close(self) -> None:
        pass


def examined(*broken: BaseException | None, **said: object) -> list[Verdict]:
    """The verdicts when the promises `p0`, `p1` … end with these errors."""

    def trying(error: BaseException | None) -> Callable[[object], None]:
        def try_it(life: object) -> None:
            if error:
                raise error

        return try_it

    promises = [
        Promise(f"p{place}", "It is.", "So.", "Write it.", trying(error), built="Give it.")
        for place, error in enumerate(broken)
    ]
    with Examination(Mock(), lambda drivers: Life(**said), promises) as examination:
        return [examination.verdict(promise) for promise in promises]


def test_the_same_error_is_told_once() -> None:
    first, other, again = examined(failure("no 1"), failure("yes"), failure("no 2"))
    assert (first.because, other.because, again.because) == ("", "", "p0")
    assert str(again) == "  ✗ p2: for the same reason as p0"


@pytest.mark.parametrize("hang", [TimeoutError("late"), Broken("late", cause=HANG)])
def test_after_a_hang_in_a_later_promise_the_others_are_waited_for_less(hang: Exception) -> None:
    waited: list[int] = []

    def keeps(life: Life) -> None:
        waited.append(life.seconds)

    def hangs(life: Life) -> None:
        waited.append(life.seconds)
        raise hang

    tried = {"p0": keeps, "p1": hangs, "p2": keeps, "p3": hangs}
    promises = [Promise(name, "It is.", "So.", "Write it.", tried[name]) for name in tried]
    with Examination(Mock(), lambda drivers: Life(), promises) as examination:
        verdicts = [examination.verdict(promise) for promise in promises]
    assert waited == [SECONDS, SECONDS, IMPATIENT, IMPATIENT]
    assert [verdict.because for verdict in verdicts] == ["", "", "", "p1"]


def test_rows_that_are_missing_twice_are_two_mistakes() -> None:
    assert [verdict.because for verdict in examined(Broken("2 rows"), Broken("2 rows"))] == ["", ""]


def test_when_nothing_works_nothing_else_is_tried() -> None:
    broken, untried = examined(NothingWorks("no row"), AssertionError("tried"))
    assert (broken.mark, untried.mark) == ("✗", "–")
    assert untried.seen == "not tried: `p0` comes first"


def test_what_there_is_nothing_to_try_on_is_not_called_kept() -> None:
    [verdict] = examined(NotTried("no line of Python"))
    assert (verdict.mark, verdict.seen) == ("–", "no line of Python")


def test_an_error_of_the_trial_itself_is_in_the_report() -> None:
    """A JSONDecodeError is a ValueError, and no mistake in the call."""
    wrong, right = examined(json.JSONDecodeError("Unterminated string", "{", 1), None)
    assert wrong.seen.startswith("the trial ended with JSONDecodeError: Unterminated string")
    assert right.mark == "✓"


@pytest.mark.parametrize("kind", [asyncio.CancelledError, SystemExit])
def test_an_error_that_is_no_exception_is_in_the_report(kind: type[BaseException]) -> None:
    """As some clients raise when their server has died."""
    wrong, right = examined(kind(), None)
    assert (wrong.mark, wrong.seen) == ("✗", f"the trial ended with {kind.__name__}")
    assert right.mark == "✓"


def test_an_interruption_ends_the_examination() -> None:
    with pytest.raises(KeyboardInterrupt):
        examined(KeyboardInterrupt(), None)


def test_a_mistake_in_the_call_is_raised() -> None:
    with pytest.raises(Mistake, match="no column"):
        examined(Mistake("no column"))


def test_an_error_of_what_describes_names_the_function() -> None:
    with pytest.raises(Broken) as broken, Trial.blamed(Mock(), "read"):
        raise FileNotFoundError("rows.json")
    told = "`read` raised FileNotFoundError: rows.json"
    assert str(broken.value) == told


def test_an_error_of_what_describes_need_be_no_exception() -> None:
    with pytest.raises(Broken) as broken, Trial.blamed(Mock(), "feed"):
        raise asyncio.CancelledError
    assert str(broken.value) == "`feed` raised CancelledError"


def test_an_onlooker_tells_whatever_has_ended_it() -> None:
    """What it had seen before would count as all there was to see."""
    error, raised = SystemExit(), threading.Event()

    def read() -> list[object]:
        raised.set()
        raise error

    with Onlooker(Mock(read=read)) as onlooker:
        assert raised.wait(60)
    assert onlooker.error is error


def test_the_remedy_is_for_who_wrote_it() -> None:
    built = SourceBuilder.batch("built", "value LONG", lambda context: 0).fill(print).build()
    for kind, remedy in (
        ("rate", "Write it."),
        (SimpleDataSource, "Write it."),
        (built, "Give it."),
    ):
        [verdict] = examined(Broken("no"), format=kind)
        assert verdict.remedy == remedy


class SimpleDataSource(DataSource):
    """Nobody has built it."""


def test_what_is_said_to_repeat_is_not_asked_for_whole_batches() -> None:
    sink = StreamSink("any", list, at_least_once=True)
    reasons = {promise.name: promise.why_not(sink) for promise in SINK_PROMISES}
    for name in ("whole_batches", "failed_batch"):
        assert reasons[name] == "it says that a row may come more than once"


def test_a_source_from_now_on_need_not_read_what_was_there() -> None:
    source = StreamSource("rate", feed=print, from_now=True)
    reasons = {promise.name: promise.why_not(source) for promise in SOURCE_PROMISES}
    told = "it begins with what comes after a query's start"
    assert [name for name, reason in reasons.items() if reason == told] == ["from_the_first_row"]


# ---- Values --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (1, 1, True),
        (1, 1.0, False),
        (1, True, False),
        (b"x", bytearray(b"x"), True),
        (b"x", "x", False),
        (datetime(2026, 1, 1, 12, tzinfo=UTC), datetime.fromisoformat("2026-01-01T13+01:00"), True),
        (Decimal("1.0"), Decimal("1.00"), True),
        ([1, {"a": 2}], [1, {"a": 2}], True),
        ([1, {"a": 2}], [1, {"a": 2.0}], False),
        (float("nan"), float("nan"), True),
        (None, "None", False),
    ],
)
def test_values_are_the_same_in_type_and_content(one: object, other: object, same: bool) -> None:
    assert (comparable(one) == comparable(other)) is same


SWAPPED = {"width": 2, "height": 1}  # what should be 1 and 2


def test_columns_that_a_source_has_swapped_are_told_with_both_values() -> None:
    [promise] = [promise for promise in SOURCE_PROMISES if promise.name == "values"]
    trial = Mock()
    trial.source.row = lambda number: {"width": 1, "height": 2}
    trial.plan.kept = [(7, SWAPPED)]
    with pytest.raises(Broken, match=r"^row 7 came with width = 2, and was fed with 1$"):
        promise.try_it(trial)


def test_columns_that_a_sink_has_swapped_are_told_with_both_values() -> None:
    trial = Mock(read=lambda: [("7", *SWAPPED.values())], written=[("7", 1, 2)])
    trial.sink.types = {"width": "INT", "height": "INT"}
    trial._compare_columns = partial(SinkTrial._compare_columns, trial)
    with pytest.raises(Broken, match=r"^now: row 7 has width = 2, and was written with 1$"):
        SinkTrial.compare(trial, "now")


@pytest.mark.parametrize("batch", range(4))
def test_one_task_has_no_row_and_another_one_most(batch: int) -> None:
    """More than 500, no multiple of 100, and the rest in the third task."""
    sizes = Counter(spread(1_013, [7, 8, 9], batch))
    assert len(sizes) == 2 and sizes[[7, 8, 9][batch % 3]] == 0
    assert sorted(sizes.values()) == [145, 868]


def test_one_task_alone_has_all() -> None:
    assert set(spread(37, [5], 0)) == {5}


# ---- A trap ------------------------------------------------------------------------------------


class Writer:
    """Its commit has four lines that run; the loop's two count as often as is said."""

    def commit(self, messages: list[int], batchId: int) -> None:
        self.done: list[int] = []
        for message in messages:
            self.done.append(message)
        self.last = batchId


def test_a_method_ends_before_each_of_its_lines(tmp_path: Path) -> None:
    trap, expected = Trap("commit", tmp_path, 2), [None, [], [], [1], [1], [1, 2, 3]]
    trap.over(Writer()).commit([1, 2, 3], 3)
    assert trap.lines() == 6 and not trap.sprung()
    for line, done in enumerate(expected):
        writer = trap.over(Writer())
        trap.lay(line, "raises")
        with pytest.raises(ToldToRaise):
            writer.commit([1, 2, 3], 3)
        assert getattr(writer, "done", None) == done
        assert trap.sprung().startswith("test_kit.py:")
    writer.commit([1, 2], 3)  # once is enough
    assert writer.last == 3


class Reader:
    """Tries again from the first row on, once it has given some."""

    def read(self, partition: int) -> Iterator[int]:
        try:
            for number in range(partition):
                given = number + 1
                yield given
        except OSError:
            yield from range(1, partition + 1)


def test_a_method_ends_behind_a_row(tmp_path: Path) -> None:
    trap = Trap("read", tmp_path)
    trap.lay(BEHIND_A_ROW, "raises")
    assert list(trap.over(Reader()).read(0)) == [] and not trap.sprung()
    assert list(trap.over(Reader()).read(2)) == [1, 1, 2] and trap.sprung()


def test_a_method_ends_in_a_thread_that_it_starts(tmp_path: Path) -> None:
    class Threaded:
        def commit(self, messages: list[int], batchId: int) -> None:
            with ThreadPoolExecutor(1) as pool:
                self.answers = [pool.submit(doubled, message) for message in messages]

    def doubled(message: int) -> int:
        return 2 * message

    trap, tracing, errors = Trap("commit", tmp_path), threading.gettrace(), []
    trap.over(Threaded()).commit([1], 0)
    for line in range(trap.lines()):
        trap.lay(line, "raises")
        writer = trap.over(Threaded())
        with suppress(ToldToRaise):
            writer.commit([1], 0)
            errors.append(writer.answers[0].exception())
    assert [type(error) for error in errors] == [ToldToRaise]
    assert threading.gettrace() is tracing


@pytest.mark.parametrize(("told", "again"), [("ToldToRaise", True), ("LookupError", False)])
def test_an_error_of_the_kit_may_end_a_query_late(tmp_path: Path, told: str, again: bool) -> None:
    """It came in a thread, and the query hears of it when the kit waits for rows already."""
    trap = Mock(lines=lambda: 1, sprung=lambda: "a.py:1")
    trial = Mock(trapped=lambda *_: nullcontext(trap))
    trial.query.exception.return_value = RuntimeError(
        f"Traceback (most recent call last):\na.{told}: told to fail"
    )
    trial.recover.side_effect = [Broken("the query failed"), None, None]
    with nullcontext() if again else pytest.raises(Broken):
        must_survive(trial, "commit", "raises", 1)


def test_a_process_can_die_behind_the_last_line(tmp_path: Path) -> None:
    trap = Trap("commit", tmp_path)
    trap.lay(4, "dies")
    child = os.fork()
    if child == 0:
        trap.over(Writer()).commit([1], 1)
        os._exit(0)  # it should not come here
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    assert trap.sprung() == "its end"


def test_the_lines_that_are_tried() -> None:
    assert some_of(3, 9) == [0, 1, 2]
    assert some_of(100, 4) == [0, 33, 66, 99]
    assert some_of(1, 4) == [0]


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
    assert wait_for_end([worker], 30) == []
    [told] = processes.end_survivors(started)
    assert told.startswith(f"process {helper.pid} (")
    assert wait_for_end([helper], 5) == []
    assert wait_for_end([daemon], 0) == [daemon]


def test_the_ports_of_sparks_own_processes_are_no_bodys_fault(
    family: list[psutil.Process], processes: SparkProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a plain session the JVM and the daemon listen; what a task has opened counts."""
    listening = Mock(status=psutil.CONN_LISTEN, laddr=Mock(port=7))
    monkeypatch.setattr(psutil.Process, "net_connections", lambda process: [listening])
    daemon, worker, helper = family
    found = processes.ports()
    assert {f"port 7 of process {process.pid}" for process in (worker, helper)} <= found
    assert not {f"port 7 of process {pid}" for pid in (os.getpid(), daemon.pid)} & found


def test_a_built_sink_is_tried_with_df_write_only_if_it_is_made_for_that() -> None:
    builder = SinkBuilder.stream("lines", list).receive(list.append)
    assert not StreamSink(builder.build(), list).batch
    assert StreamSink(builder.also_batch().build(), list).batch


def test_a_format_is_what_its_options_choose() -> None:
    logged = SourceBuilder.stream("s", "value LONG", lambda context: 0).fill(print).build()
    table = SourceBuilder.batch("b", "value LONG", lambda context: 0).fill(print).build()
    written = SinkBuilder.stream("w", list).receive(list.append).build()

    class Orders(Format):
        format = "orders"

        def source(self) -> type[DataSource]:
            return table if self.options["AS"] == "table" else logged

        def sink(self) -> type[DataSource]:
            return written

    assert StreamSource(Orders, {"as": "table"}).batch
    chosen = StreamSource(Orders, {"as": "stream"})
    assert chosen.logged and chosen.batch == StreamSource(logged).batch
    assert not StreamSink(Orders, list).batch
    assert chosen.built and chosen.python
