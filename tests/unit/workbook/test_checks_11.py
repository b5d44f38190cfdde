"""The check of notebook 11 passes on what the kit finds, in a line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tutorial_pkg.testing import Report, Verdict
from tutorial_pkg.workbook.checks import check_11
from tutorial_pkg.workbook.number_files import NumberReader, NumberWriter, Slice, numbers_in

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
        assert told.startswith("✗ A class is wanted that extends NumberReader: write `class Mended")


# ---- The class of the exercise is to be mended: an earlier answer is none ------------------------


class Greedy(NumberReader):
    pass


class MendedGreedy(Greedy):
    pass


class Appender(NumberWriter):
    pass


class Direct(NumberWriter):
    pass


@pytest.mark.parametrize(
    ("earlier", "base"), [(Mended, Greedy), (Greedy, Greedy), (Appender, Direct)]
)
def test_an_answer_that_mends_something_else_is_refused(earlier: type, base: type) -> None:
    told = repr(check_11(earlier, base, report(KEPT)))
    assert told.startswith(f"✗ A class is wanted that extends {base.__name__}: write ")
    assert f"class Mended({base.__name__})" in told


def test_an_answer_that_mends_the_class_of_the_exercise_is_right() -> None:
    assert check_11(MendedGreedy, Greedy, report(KEPT)).passed


# ---- The note of exercise 3 ----------------------------------------------------------------------


class NoNote(NumberReader):
    def partitions(self, start, end):
        return [Slice(start["next"], end["next"])]

    def read(self, part):
        yield from ((number,) for number in numbers_in(self.path)[part.start : part.end])

    @property
    def note(self) -> Path:
        return Path(self.path) / "handed-out"


class Noting(NoNote):
    def commit(self, end):
        self.note.write_text(str(end["next"]))


class NotesInRead(Noting):
    def read(self, part):
        yield from super().read(part)
        self.note.write_text(str(part.end))


class NotesTheOffset(NoNote):
    def commit(self, end):
        self.note.write_text(str(end))


class LooksAtTheNote(Noting):
    def read(self, part):
        first = int(self.note.read_text()) if self.note.exists() else 0
        yield from super().read(Slice(max(first, part.start), part.end))


class Fails(NoNote):
    def commit(self, end):
        raise KeyError("nxet")


def test_a_note_that_commit_writes_is_right() -> None:
    assert check_11(Noting, NumberReader, report(KEPT), note="handed-out").passed
    broken = check_11(Noting, NumberReader, report(BROKEN), note="handed-out")
    assert repr(broken).startswith("✗ restart: ")


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (NoNote, "There is no note handed-out after `commit(end)`"),
        (NotesInRead, "`read` has written the note handed-out"),
        (NotesTheOffset, """handed-out says "{'next': 3}": write end["next"]."""),
        (LooksAtTheNote, "it must not look at handed-out"),
        (Fails, "It raised KeyError: 'nxet'."),
    ],
)
def test_a_note_that_is_missing_or_misplaced_is_told(answer: type, told: str) -> None:
    verdict = check_11(answer, NumberReader, report(KEPT), note="handed-out")
    assert not verdict.passed and told in verdict.message
