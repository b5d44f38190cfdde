"""Checks of notebook 15."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from pyspark import cloudpickle

from tutorial_pkg.observe import BatchMetrics
from workbook.checks.verdict import Case, Wrong, compare, exercise, told

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
SLOWER = {"done_per_second": 80.0, "seconds": {"addBatch": 2.9, "triggerExecution": 3.0}}
BOTH_RATES = "`done_per_second` must be compared with `in_per_second`."
WHOLE = "Only `triggerExecution` is the whole batch."


def _phases(**seconds: float) -> dict[str, Any]:
    """As `SLOWER`, but with these seconds."""
    return {**SLOWER, "seconds": seconds}


CASES = [  # how a batch differs from a healthy one
    Case(({},), [], "A healthy batch needs no alarm."),
    Case(({"late_rows": 3},), ["late"], "Rows were dropped: `late_rows`."),
    Case(({"late_rows": 1},), ["late"], "One dropped row is enough."),
    Case(
        (SLOWER,),
        ["behind"],
        "Fewer rows were processed per second than arrived, and the batch took 3 s.",
        symptoms=[(["behind", "late"], "'late' is from an earlier call: begin with a new list.")],
    ),
    Case(({"done_per_second": 80.0},), [], "A batch of a tenth of a second says little."),
    Case(
        ({"seconds": SLOWER["seconds"]},),
        [],
        "It took long, but more rows were processed than arrived.",
    ),
    Case(({**SLOWER, "late_rows": 1},), ["behind", "late"], "Both may be wrong at once."),
    Case((_phases(latestOffset=0.8, addBatch=0.4, triggerExecution=1.3),), ["behind"], WHOLE),
    Case((_phases(addBatch=0.6, triggerExecution=0.7),), [], WHOLE),
    Case(({**SLOWER, "in_per_second": 1e3, "done_per_second": 900.0},), ["behind"], BOTH_RATES),
    Case(({**SLOWER, "in_per_second": 50.0},), [], BOTH_RATES),
    Case(
        ({**SLOWER, "done_per_second": 100.0},),
        [],
        "As many rows were processed as arrived, not fewer.",
    ),
    Case((_phases(triggerExecution=1.0),), [], "One second is not longer than one."),
    Case((_phases(triggerExecution=1.001),), ["behind"], "It took longer than a second."),
    Case(({**SLOWER, "batch": 0},), ["behind"], "The first batch is like any other."),
    Case(({**SLOWER, "in_per_second": 100.8, "done_per_second": 100.2},), ["behind"], BOTH_RATES),
]


@exercise("def alarms(batch)")
def check_15_1(answer: Callable[[BatchMetrics], Any]) -> str:
    """Does `answer(batch)` name what is wrong with a batch?"""

    def alarms(different: dict[str, Any]) -> Any:
        return answer(replace(WELL, **different))

    compare(alarms, CASES, key=_sorted)
    return "It rings when it should, and only then."


def _sorted(found: Any) -> list[str]:
    if not isinstance(found, list):
        raise Wrong(f"A list is wanted, [] if nothing is wrong; got {found!r}.")
    return sorted(found)


class _Shop:
    """One thing that travels, and others that do not; nor does the shop itself."""

    def __init__(self, name: str) -> None:
        self.name, self.lock = name, threading.Lock()

    def label(self, batches: Any) -> Any:
        return batches

    def __reduce__(self) -> Any:
        raise TypeError("cannot pickle a shop: only its name may travel")


@exercise("def labeller(shop)")
def check_15_2(answer: Callable[[Any], Callable[..., Any]]) -> str:
    """Does `answer(shop)` return a function for `mapInArrow` that leaves the shop at home?"""
    names, items = ("corner", "station"), (["tea", "", "tea"], [" milk ", "corner shelf"])
    for name, function in [(name, answer(_Shop(name))) for name in names]:
        if not callable(function):
            raise Wrong("`labeller(shop)` has to return a function: `return label`.")
        try:
            travelled = cloudpickle.loads(cloudpickle.dumps(function))
            batches = list(travelled(pa.record_batch({"item": each}) for each in items))
        except Exception as error:
            raise Wrong(f"{_hint(error)} It raised {told(error)}") from None
        for batch in batches:
            if not isinstance(batch, pa.RecordBatch):
                text = "It must yield record batches, as it is given; yours yields"
                hint = " Is there a `return` for a `yield`?" if isinstance(batch, pa.Array) else ""
                raise Wrong(f"{text} {type(batch).__name__}.{hint}")
        found = [batch.to_pydict() for batch in batches]
        if any([*columns] != ["item"] for columns in found):
            raise Wrong(f"A batch has one column, `item`, before and after; found {found}.")
        labels = [label for columns in found for label in columns["item"]]
        if labels != _labels(name, items):
            wanted = f"Each item must become '{name}: tea', and none be left out or added"
            hint = " That is the shop of a later call: keep the name inside `labeller`."
            later = hint if labels == _labels(names[1], items) else ""
            raise Wrong(f"{wanted}; yours makes {found} of {[*items]}.{later}")
    return "Only the name travels."


def _labels(name: str, items: Iterable[list[str]]) -> list[str]:
    return [f"{name}: {item}" for each in items for item in each]


def _hint(error: Exception) -> str:
    if "cannot pickle a shop" in str(error):
        return "The shop is captured: take its name into a variable before `def`."
    if "cannot pickle" in str(error):
        return "More than the name is captured: take the name alone into a variable before `def`."
    return "It is called with an iterator of record batches."
