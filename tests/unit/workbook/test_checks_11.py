"""The check of notebook 11 passes on what the kit finds, in a line."""

from __future__ import annotations

from tutorial_pkg.testing import Report, Verdict
from tutorial_pkg.workbook.checks import check_11
from tutorial_pkg.workbook.number_files import NumberReader, NumberWriter

KEPT = Verdict("every_row_once", "Every row comes once.", "✓")
BROKEN = Verdict(
    "restart", "It goes on.", "✗", "after a restart:\nof 60 rows 20 too many", "Mend it."
)


class Mended(NumberReader):
    pass


def report(*verdicts: Verdict):
    return lambda answer: Report(answer.__name__, list(verdicts), 1.0)


def test_what_keeps_all_is_right() -> None:
    verdict = check_11(Mended, NumberReader, report(KEPT, KEPT))
    assert repr(verdict) == "✓ 2 promises were tried, and all are kept."


def test_what_is_broken_and_what_to_do_is_told_in_a_line() -> None:
    verdict = check_11(Mended, NumberReader, report(KEPT, BROKEN))
    assert repr(verdict) == "✗ restart: after a restart: of 60 rows 20 too many → Mend it."


def test_no_answer_and_no_class_are_told_apart() -> None:
    assert repr(check_11(None, NumberReader, report())).startswith("– No answer yet")
    for wrong in (object(), NumberWriter, 3):
        told = repr(check_11(wrong, NumberReader, report()))
        assert told == "✗ A class is wanted that extends NumberReader: class Mended(...): ..."
