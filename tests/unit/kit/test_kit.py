"""The parts of the conformance kit that need no Spark."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest.mock import Mock

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
from tutorial_pkg import SourceBuilder
from tutorial_pkg.builder import Format

ROOT = Path(__file__).parents[3]

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
        (1, 1, True),
        (1, 1.0, False),
        (1, True, False),
        (b"x", bytearray(b"x"), True),
        (b"x", "x", False),
        (datetime(2026, 1, 1, 12, tzinfo=UTC), datetime.fromisoformat("2026-01-01T13+01:00"), True),
        (Decimal("1.0"), Decimal("1.00"), True),
        ([1, {"a": 2}], [1, {"a": 2.0}], False),
        (float("nan"), float("nan"), True),
        (None, "None", False),
    ],
)
def test_values_differ_by_type_and_content(one: object, other: object, same: bool) -> None:
    assert (comparable(one) == comparable(other)) is same


# ---- Queries -------------------------------------------------------------------------------------


def test_ledger_counts_the_last_attempt(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger")
    one, two, three, four = ((number, 10 * number) for number in range(1, 5))
    ledger.add(0, [one, two])
    ledger.add(1, [three])
    ledger.add(1, [three, four])
    assert ledger.attempts() == {0: [[one, two]], 1: [[three], [three, four]]}
    assert ledger.rows() == [1, 2, 3, 4]


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


def test_available_now_needs_waiting_rows() -> None:
    port = StreamSource("socket", feed=print, feed_when_stopped=False)
    assert reasons(port)["available_now"] is None
    assert reasons(replace(port, restarts=False))["available_now"]
    assert reasons(replace(port, restarts=False, feed=None))["available_now"]
    assert reasons(replace(port, restarts=False, feed_when_stopped=True))["available_now"] is None


def test_unknown_names_are_refused() -> None:
    with pytest.raises(Mistake, match="restarts"):
        check_names({"restarts"}, ["restart"], "`without`")
    with pytest.raises(Mistake, match="a list of names"):
        choose(SOURCE_PROMISES, (), "restart")


def test_options_choose_the_builders_class() -> None:
    logged = SourceBuilder.stream("s", "value LONG", lambda context: 0).fill(print).build()
    table = SourceBuilder.batch("b", "value LONG", lambda context: 0).fill(print).build()

    class Orders(Format):
        format = "orders"

        def source(self) -> type[DataSource]:
            return table if self.options["AS"] == "table" else logged

    assert StreamSource(Orders, {"as": "table"}).batch
    chosen = StreamSource(Orders, {"as": "stream"})
    assert chosen.logged and chosen.python and chosen.batch == StreamSource(logged).batch


# ---- The report ----------------------------------------------------------------------------------

REPORT = Report(
    "some<format>",
    [
        Verdict("killed", "Nothing is lost.", "–", "it does not say so"),
        Verdict("restart", "It resumes.", "✗", "3 rows < 4", "Repair it."),
        Verdict("every_row_once", "All arrive.", "✓"),
        Verdict("limit", "It is cut.", "✗", "3 rows < 4", "Cut it.", because="restart"),
    ],
    12.3,
)


def test_report_starts_with_broken_promises() -> None:
    assert str(REPORT).splitlines() == [
        "some<format>: 1 kept, 1 broken (and 1 with it), 1 not claimed",
        "  ✗ restart: It resumes.",
        "      3 rows < 4",
        "      → Repair it.",
        "      with it: limit",
        "  – killed: Nothing is lost.",
        "      it does not say so",
        "  ✓ every_row_once: All arrive.",
    ]
    assert REPORT.broken == ["restart"] and REPORT.first() == "restart"
    assert "<td>3 rows &lt; 4<br>→ Repair it.<br>with it: limit</td>" in REPORT._repr_html_()


def missing(name: str) -> Verdict:
    return Verdict(name, "It is.", "✗", "1 row is missing", f"Repair {name}.", rows_missing=True)


def test_missing_rows_have_one_cause() -> None:
    """A lost row breaks many promises; the remedy that names the cause comes first."""
    verdicts = [missing("every_row_once"), missing("limit"), missing("late_rows")]
    other = Verdict("repeated_batch", "It is.", "✗", "a duplicate", "Repair it.")
    remedies = [verdict.remedy for verdict in ranked([*verdicts, other])]
    too = "Rows are missing here, too. Fix `late_rows` first."
    assert remedies == [too, too, "Repair late_rows.", "Repair it."]
    report = Report("source", ranked([*verdicts, other]), 1.0)
    assert report.first() == "late_rows"
    too = "Rows are missing here, too. Fix `every_row_once` first."
    assert [v.remedy for v in ranked(verdicts[:2])] == ["Repair every_row_once.", too]


# ---- An examination ------------------------------------------------------------------------------


class Life:
    """A source with these fields, for promises that only raise errors."""

    seconds: int

    def __init__(self, **fields: object) -> None:
        self.described = StreamSource(**{"format": "rate", **fields})

    def close(self) -> None:
        pass


def verdicts_of(*trials: Callable[[Life], None] | BaseException | None) -> list[Verdict]:
    """Return verdicts on promises `p0`, `p1` …, each with this trial or this error."""

    def trying(trial: Any) -> Callable[[Life], None]:
        def try_it(life: Life) -> None:
            if isinstance(trial, BaseException):
                raise trial
            if trial:
                trial(life)

        return try_it

    promises: Any = [
        Promise(f"p{place}", "It is.", "So.", "Repair it.", trying(trial))
        for place, trial in enumerate(trials)
    ]
    with Examination(Mock(), lambda drivers: Life(), promises) as examination:
        return [examination.verdict(promise) for promise in promises]


def test_one_cause_is_reported_once() -> None:
    first, other, again = verdicts_of(failure("no 1"), failure("yes"), failure("no 2"))
    assert (first.because, other.because, again.because) == ("", "", "p0")
    assert str(again) == "  ✗ p2: for the same reason as p0"


@pytest.mark.parametrize("hang", [TimeoutError("late"), Broken("late", cause=HANG)])
def test_later_waits_are_shorter_after_a_hang(hang: Exception) -> None:
    waited: list[int] = []

    def hangs(life: Life) -> None:
        waited.append(life.seconds)
        raise hang

    verdicts = verdicts_of(hangs, hangs)
    assert waited == [SECONDS, IMPATIENT]
    assert [verdict.because for verdict in verdicts] == ["", "p0"]


@pytest.mark.parametrize(
    "error", [json.JSONDecodeError("Unterminated", "{", 1), asyncio.CancelledError(), SystemExit()]
)
def test_error_of_a_trial_is_in_the_report(error: BaseException) -> None:
    """Some clients raise a `BaseException` when their server has died."""
    wrong, right = verdicts_of(error, None)
    assert wrong.mark == "✗" and type(error).__name__ in wrong.seen
    assert right.mark == "✓"


@pytest.mark.parametrize("error", [KeyboardInterrupt(), Mistake("no column")])
def test_interruption_ends_the_examination(error: BaseException) -> None:
    with pytest.raises(type(error)):
        verdicts_of(error)


@pytest.mark.parametrize(
    ("text", "error", "kind"),
    [
        ("ValueError: no", "a JVM's trace", Broken),
        ("no", "SparkException: Python worker failed to connect back.", MachineTooSlow),
        ("Timed out while waiting for the Python worker to connect back", "", MachineTooSlow),
    ],
)
def test_slow_machine_breaks_no_promise(text: str, error: str, kind: type) -> None:
    assert type(failure(text, error)) is kind


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


def test_missing_package_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.util as util\nfind = util.find_spec\n"
        "util.find_spec = lambda name, *more: None if name == 'psutil' else find(name, *more)\n"
    )
    path = os.pathsep.join([str(tmp_path), str(ROOT / "kit")])
    environment = {**os.environ, "PYTHONPATH": path}
    run = [sys.executable, "-m", "spark_connector_tests", "a:b"]
    process = subprocess.run(run, env=environment, capture_output=True, text=True, check=False)
    [line] = process.stderr.splitlines()
    assert "pip install psutil" in line and process.returncode == 1
