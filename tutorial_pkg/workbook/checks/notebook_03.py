"""Checks of notebook 03."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql.streaming import StreamingQuery

from tutorial_pkg.errors import last_error
from tutorial_pkg.workbook.checks.verdict import Verdict, exercise, not_yet, right

MOST_ROWS, ALL_ROWS = 400_000, 1_000_000


@exercise
def check_03_1(answer: Callable[[bytes], int]) -> Verdict:
    """Does `answer` say up to which byte whole lines can be emitted?"""
    if not callable(answer):
        return not_yet("A function is wanted: def next_unread(data): ...")
    found = {data: _call(answer, data) for data in (b"one\ntw", b"one\n", b"on", b"", b"a\n\nb")}
    strange = next((data for data, value in found.items() if type(value) is not int), None)
    if strange is not None:
        return not_yet(f"It must return a whole number, whatever the bytes: try it on {strange!r}.")
    if found[b"one\ntw"] == 6:
        return not_yet("Half a line goes out: b'one\\ntw' holds one whole line, of 4 bytes.")
    if found[b"one\ntw"] == 3:
        return not_yet("3 is the newline's own place: the offset is the byte *behind* it, 4.")
    if found[b"on"] != 0 or found[b""] != 0:
        return not_yet("Without a newline nothing may be emitted: for b'on' the answer is 0.")
    if (found[b"one\ntw"], found[b"one\n"], found[b"a\n\nb"]) != (4, 4, 3):
        return not_yet("It must be behind the *last* newline: 4 for b'one\\n', 3 for b'a\\n\\nb'.")
    return right("Never half a line, and none twice: the offset lies behind a newline.")


def _call(function: Callable[[bytes], Any], data: bytes) -> Any:
    try:
        return function(data)
    except Exception as error:  # whatever the learner's function raises is a wrong answer
        return error


@exercise
def check_03_2(answer: StreamingQuery) -> Verdict:
    """Has the query read all 1,000,000 lines, at most 400,000 in a batch, and stopped by itself?"""
    if not isinstance(answer, StreamingQuery):
        kind = type(answer).__name__
        return not_yet(f"The query is wanted, this is {kind}: keep what start() returns.")
    if answer.exception():
        return not_yet(f"The query has failed. {last_error(answer)}")
    if answer.isActive:
        return not_yet(
            "It is still running: use trigger(availableNow=True), and awaitTermination()."
        )
    rows = [progress.numInputRows for progress in answer.recentProgress]
    if max(rows, default=0) > MOST_ROWS:
        return not_yet(f"One batch has {max(rows)} rows: set option maxRowsPerTrigger.")
    if sum(rows) != ALL_ROWS:
        return not_yet(
            f"It read {sum(rows)} of {ALL_ROWS} lines: begin at the earliest, with a new "
            "checkpoint if any, and let it come to the end."
        )
    return right(f"All lines in {sum(map(bool, rows))} batches, and then it stopped by itself.")
