"""The parts of the conformance kit that need no Spark."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest.mock import Mock, patch

import pytest
from pyspark.sql import Row

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
    command,
    queries,
)
from spark_connector_tests.examination import IMPATIENT, Examination, choose
from spark_connector_tests.promise import HANG, MachineTooSlow, check_names, failure
from spark_connector_tests.queries import (
    Ledger,
    SourceQuery,
    collected_elsewhere,
)
from spark_connector_tests.report import ranked
from spark_connector_tests.rows import check_once, comparable
from spark_connector_tests.trial import SECONDS

# ---- Rows ----------------------------------------------------------------------------------------


def test_wrong_rows_are_counted_by_kind() -> None:
    with pytest.raises(Broken) as broken:
        check_once(range(2141), [*range(2134), *range(2095), "x"], "after a restart")
    assert str(broken.value) == (
        "after a restart, 7 of 2,141 rows are missing (2134, 2135, 2136 …) and "
        "2,095 of 2,141 rows are duplicates (0, 1, 2 …) and 1 of 2,141 rows is unexpected ('x')"
    )
    assert not broken.value.rows_missing
    with pytest.raises(Broken) as broken:
        check_once(range(3), [0, 1], "now")
    assert broken.value.rows_missing


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (1, 1.0, False),
        (1, True, False),
        (b"x", bytearray(b"x"), True),
        (datetime(2026, 1, 1, 12, tzinfo=UTC), datetime.fromisoformat("2026-01-01T13+01:00"), True),
        (Decimal("1.0"), Decimal("1.00"), True),
        ([1, {"a": 2}], [1, {"a": 2.0}], False),
        (float("nan"), float("nan"), True),
    ],
)
def test_values_differ_by_type_and_content(one: object, other: object, same: bool) -> None:
    assert (comparable(one) == comparable(other)) is same


# ---- Queries -------------------------------------------------------------------------------------


class Batch:
    """A batch that fails with each of these errors, and then has these numbers."""

    sparkSession = None

    def __init__(self, *errors: str, numbers: tuple[int, ...] = (1,)) -> None:
        self.errors, self.numbers = list(errors), numbers

    def select(self, *columns: str) -> Batch:
        return self

    def collect(self) -> list[Row]:
        if self.errors:
            raise RuntimeError(self.errors.pop(0))
        return [Row(number=number, hash=10) for number in self.numbers]


LOST = "SparkException: Python worker exited unexpectedly (crashed)"


def test_batch_is_read_again_after_a_lost_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queries, "end_task_workers", lambda _: None)
    assert collected_elsewhere(Batch(LOST, LOST)) == [(1, 10)]
    for errors in (["LookupError: once"], [LOST, "LookupError"], [LOST] * 3):
        with pytest.raises(RuntimeError, match=errors[-1].split("(")[0]):
            collected_elsewhere(Batch(*errors))


def test_empty_batch_is_not_the_one_that_fails(tmp_path: Path) -> None:
    """A new query may start with an empty batch, before anything can be fed."""
    query = SourceQuery("rate", {}, None, None, tmp_path, tmp_path / "ledger")
    Ledger(query.ledger)
    query.fails.touch()
    query._record(Batch(numbers=()), 0)
    with pytest.raises(queries.InjectedFailure):
        query._record(Batch(), 1)
    query._record(Batch(), 1)
    assert Ledger(query.ledger).attempts() == {0: [[]], 1: [[(1, 10)], [(1, 10)]]}


# ---- Which promises are tried --------------------------------------------------------------------


def reasons(described: StreamSource | StreamSink) -> dict[str, str | None]:
    promises: Any = SOURCE_PROMISES if isinstance(described, StreamSource) else SINK_PROMISES
    return {promise.name: promise.why_not(described) for promise in promises}


def test_undescribed_promises_are_not_tried() -> None:
    found = reasons(StreamSource("rate", not_claimed={"restart": "it is not said to"}))
    assert found["restart"] == "it is not said to"
    assert found["limit"] == "`limit` is not described"
    assert found["no_empty_batches"] == "`feed` is not described"
    assert found["read_errors_surface"] is not None
    assert found["every_row_once"] is None


def test_unknown_names_are_refused() -> None:
    with pytest.raises(Mistake, match="restarts"):
        check_names({"restarts"}, ["restart"], "`without`")
    with pytest.raises(Mistake, match="a list of names"):
        choose(SOURCE_PROMISES, (), "restart")


# ---- The report ----------------------------------------------------------------------------------


def test_report_starts_with_broken_promises() -> None:
    report = Report(
        "some<format>",
        [
            Verdict("killed", "Nothing is lost.", "–", "it does not say so"),
            Verdict("restart", "It resumes.", "✗", "3 rows < 4", "Repair it."),
            Verdict("every_row_once", "All arrive.", "✓"),
            Verdict("limit", "It is cut.", "✗", "3 rows < 4", "Cut it.", because="restart"),
        ],
        12.3,
    )
    assert str(report).splitlines() == [
        "some<format>: 1 kept, 1 broken (and 1 with it), 1 not claimed",
        "  ✗ restart: It resumes.",
        "      3 rows < 4",
        "      → Repair it.",
        "      with it: limit",
        "  – killed: Nothing is lost.",
        "      it does not say so",
        "  ✓ every_row_once: All arrive.",
    ]
    assert report.broken == ["restart"]
    assert "<td>3 rows &lt; 4<br>→ Repair it.<br>with it: limit</td>" in report._repr_html_()


def broken(name: str, missing: bool = True) -> Verdict:
    return Verdict(name, "It is.", "✗", "seen", f"Repair {name}.", rows_missing=missing)


def test_missing_rows_have_one_cause() -> None:
    """A lost row breaks many promises; the remedy that explains it comes first."""
    verdicts = [broken("repeated_batch", missing=False), broken("limit"), broken("late_rows")]
    report = Report("source", ranked([*verdicts, broken("every_row_once")]), 1.0)
    assert report.broken == ["late_rows", "repeated_batch"]
    lines = str(report).splitlines()
    assert lines[3:5] == [
        "      → Repair late_rows.",
        "      Rows are missing here, too: limit, every_row_once",
    ]
    assert "Repair limit." not in str(report)
    assert str(ranked(verdicts)[1]).endswith("rows are missing here, too; fix `late_rows` first")
    assert [v.because for v in ranked([broken("limit"), broken("killed")])] == ["", "limit"]


# ---- An examination ------------------------------------------------------------------------------


class Life:
    """A source, for promises that only raise errors."""

    seconds: int
    described = StreamSource("rate")

    def close(self) -> None:
        """Nothing is open."""


def verdicts_of(*trials: Callable[[Life], None] | BaseException | None) -> list[Verdict]:
    """Return verdicts on promises `p0`, `p1` …, each with this trial or this error."""

    def trying(trial: Any) -> Callable[[Life], None]:
        def try_it(life: Life) -> None:
            if isinstance(trial, BaseException):
                raise trial
            if trial:
                trial(life)

        return try_it

    with Examination(Mock(), Mock()) as examination, patch.object(examination, "_begin", Life):
        return [
            examination.verdict(Promise(f"p{place}", "It is.", "", "Repair it.", trying(trial)))
            for place, trial in enumerate(trials)
        ]


def test_one_cause_is_reported_once() -> None:
    verdicts = verdicts_of(failure("no 1"), failure("yes"), failure("no 2"))
    assert [verdict.because for verdict in verdicts] == ["", "", "p0"]


@pytest.mark.parametrize("hang", [TimeoutError("late"), Broken("late", cause=HANG)])
def test_later_waits_are_shorter_after_a_hang(hang: Exception) -> None:
    waited: list[int] = []

    def hangs(life: Life) -> None:
        waited.append(life.seconds)
        raise hang

    verdicts = verdicts_of(hangs, hangs)
    assert waited == [SECONDS, IMPATIENT]
    assert [verdict.because for verdict in verdicts] == ["", "p0"]


@pytest.mark.parametrize("error", [json.JSONDecodeError("Unterminated", "{", 1), SystemExit()])
def test_error_of_a_trial_is_in_the_report(error: BaseException) -> None:
    """Some clients raise a `BaseException` when their server has died."""
    wrong, right = verdicts_of(error, None)
    assert wrong.mark == "✗" and type(error).__name__ in wrong.seen
    assert right.mark == "✓"


def test_slow_machine_breaks_no_promise() -> None:
    late = "Python worker failed to connect back"
    assert type(failure("ValueError: no", "a JVM's trace")) is Broken
    assert type(failure("no", f"SparkException: {late}.")) is MachineTooSlow


# ---- The command ---------------------------------------------------------------------------------


def test_wrong_name_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    for what in ("json", "no_such_module:x", "json:no_such_function"):
        assert command.main([what]) == 2
        assert what.split(":")[0] in capsys.readouterr().err


def test_missing_java_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    assert command.main(["json:loads"]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert "JAVA_HOME" in line


def test_failure_names_the_line_of_the_connector() -> None:
    trace = """Traceback (most recent call last):
  File "/usr/lib/python3.11/site-packages/pyspark/worker.py", line 1, in main
  File "/home/me/inbox.py", line 30, in read
  File "/usr/lib/python3.11/json/decoder.py", line 2, in decode
ValueError: no"""
    assert "inbox.py, line 30, in read" in failure("the query failed: ValueError: no", trace).remedy
    assert "line" not in failure("the query failed: ValueError: no").remedy
