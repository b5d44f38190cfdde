"""Checks of notebook 15."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from pyspark import cloudpickle

from tutorial_pkg.observe import BatchMetrics
from tutorial_pkg.workbook.checks.verdict import Verdict, exercise, not_yet, right

WELL = BatchMetrics(
    batch=7,
    started=datetime(2026, 11, 22, 10, tzinfo=UTC),
    rows_in=100,
    rows_out=None,
    in_per_second=100.0,
    done_per_second=900.0,
    seconds={"addBatch": 0.1, "triggerExecution": 0.11},
    lag=0.0,
    watermark=None,
    state_rows=0,
    state_bytes=0,
    late_rows=0,
)
LONG = {"addBatch": 2.9, "triggerExecution": 3.0}
PHASES = {"latestOffset": 0.8, "addBatch": 0.4, "triggerExecution": 1.3}
SHORT_PHASES = {"addBatch": 0.6, "triggerExecution": 0.7}
SECOND = {"addBatch": 0.9, "triggerExecution": 1.0}
ABOVE = {"addBatch": 0.9, "triggerExecution": 1.01}
BOTH_RATES = "`done_per_second` is to be compared with `in_per_second`."
SLOWER = replace(WELL, done_per_second=80.0, seconds=LONG)
CASES: tuple[tuple[BatchMetrics, list[str], str], ...] = (
    (WELL, [], "A batch that is well needs no alarm."),
    (replace(WELL, late_rows=3), ["late"], "Rows were dropped: `late_rows`."),
    (SLOWER, ["behind"], "Fewer rows were done a second than came."),
    (replace(SLOWER, seconds=WELL.seconds), [], "A batch of a tenth of a second says little."),
    (replace(WELL, seconds=LONG), [], "It took long, but more was done than came."),
    (replace(SLOWER, late_rows=1), ["behind", "late"], "Both may be wrong at once."),
    (replace(SLOWER, seconds=PHASES), ["behind"], "The whole batch is `triggerExecution`."),
    (replace(SLOWER, seconds=SHORT_PHASES), [], "The whole batch is `triggerExecution`, only."),
    (replace(SLOWER, in_per_second=1000.0, done_per_second=900.0), ["behind"], BOTH_RATES),
    (replace(SLOWER, in_per_second=50.0), [], BOTH_RATES),
    (replace(SLOWER, done_per_second=100.0), [], "As many rows were done as came, not fewer."),
    (replace(SLOWER, seconds=SECOND), [], "A second is not longer than a second."),
    (replace(SLOWER, seconds=ABOVE), ["behind"], "The batch took longer than a second."),
)


@exercise
def check_15_1(answer: Callable[[BatchMetrics], Any]) -> Verdict:
    """Does `answer(batch)` name what is wrong with a batch?"""
    if not callable(answer):
        return not_yet("A function is wanted: def alarms(batch): ...")
    for batch, wanted, hint in CASES:
        try:
            found = answer(batch)
            if not isinstance(found, list):
                return not_yet(f"A list is wanted, [] if nothing is wrong; got {found!r}.")
            found.sort()
        except Exception as error:  # whatever the learner's function raises is a wrong answer
            return not_yet(f"{hint} It raised {type(error).__name__}: {str(error)[:120]}")
        if found != wanted:
            return not_yet(f"{hint} Wanted {wanted}, got {found}.")
    return right("It rings when it should, and only then.")


class _Shop:
    """One thing that travels, and one that does not; nor does the shop itself."""

    def __init__(self, name: str) -> None:
        self.name, self.lock = name, threading.Lock()

    def __reduce__(self) -> Any:
        raise TypeError("cannot pickle a shop")


@exercise
def check_15_2(answer: Callable[[Any], Callable[..., Any]]) -> Verdict:
    """Does `answer(shop)` return a function for `mapInArrow` that leaves the shop at home?"""
    if not callable(answer):
        return not_yet("A function is wanted: def labeller(shop): ...")
    batches = [pa.record_batch({"item": [word]}) for word in ("tea", "milk")]
    for name in ("corner", "station"):
        try:
            function = answer(_Shop(name))
            if not callable(function):
                return not_yet("`labeller(shop)` has to return a function: `return label`.")
            travelled = cloudpickle.loads(cloudpickle.dumps(function))
            found = [batch.to_pydict() for batch in travelled(iter(batches))]
        except Exception as error:  # whatever the learner's function raises is a wrong answer
            return not_yet(f"{_hint(error)} It raised {type(error).__name__}: {str(error)[:120]}")
        if found != [{"item": [f"{name}: tea"]}, {"item": [f"{name}: milk"]}]:
            return not_yet(f"Each item is to become '{name}: tea', batch by batch; found {found}.")
    return right("Only the name travels.")


def _hint(error: Exception) -> str:
    if "cannot pickle a shop" in str(error):
        return "The shop is captured: take its name into a variable before `def`."
    if "cannot pickle" in str(error):
        return "More than the name is captured: take the name alone into a variable before `def`."
    return "It is called with an iterator of record batches."
