"""The check of notebook 11 passes on what the kit finds, in a line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.unit.workbook.answers import changed, look, tried
from tutorial_pkg.testing import Report, Verdict
from tutorial_pkg.workbook.checks import check_11
from tutorial_pkg.workbook.number_files import NumberReader, NumberWriter, Slice, numbers_in

KEPT = Verdict("every_row_once", "Every row comes once.", "✓")
BROKEN = Verdict(
    "restart", "It goes on.", "✗", "after a restart:\nof 60 rows 20 too many", "Mend it."
)


def report(*verdicts: Verdict) -> Any:
    return lambda answer: Report(answer.__name__, list(verdicts), 1.0)


class Greedy(NumberReader):
    pass


class Mended(Greedy):
    pass


def test_what_the_kit_finds_is_told_in_a_line() -> None:
    verdict = check_11(Mended, Greedy, report(KEPT, KEPT))
    assert repr(verdict) == "✓ 2 promises were tried, and all are kept."
    verdict = check_11(Mended, Greedy, report(KEPT, BROKEN))
    assert repr(verdict) == "✗ restart: after a restart: of 60 rows 20 too many → Mend it."


ANOTHER = "A class is wanted that extends Greedy: write `class Mended(Greedy)"
test_what_does_not_mend_the_class_of_the_exercise = tried(
    check_11,
    (None, "– No answer yet"),
    (object(), ANOTHER),
    (3, ANOTHER),
    (Greedy, ANOTHER),
    (NumberReader, ANOTHER),
    (NumberWriter, ANOTHER),
    more=(Greedy, report(KEPT)),
)


# ---- The note of exercise 3 ----------------------------------------------------------------------


class Noting(NumberReader):
    def partitions(self, start, end):
        return [Slice(start["next"], end["next"])]

    def read(self, part):
        yield from ((number,) for number in numbers_in(self.path)[part.start : part.end])

    def commit(self, end):
        self.note.write_text(str(end["next"]))

    @property
    def note(self) -> Path:
        return Path(self.path) / "handed-out"


def noting(*edits: tuple[str, str]) -> Any:
    return changed(Noting, *edits)


class NotesInRead(Noting):
    def read(self, part):
        yield from super().read(part)
        self.note.write_text(str(part.end))


class LooksAtTheNote(Noting):
    def read(self, part):
        first = int(self.note.read_text()) if self.note.exists() else 0
        yield from super().read(Slice(max(first, part.start), part.end))


test_the_note = tried(
    check_11,
    (Noting, "✓ 1 promises were tried"),
    (noting(("def commit", "def committed")), "There is no note handed-out after `commit(end)`"),
    (NotesInRead, "`read` has written the note handed-out"),
    (
        noting(('str(end["next"])', "str(end)")),
        """handed-out says "{'next': 3}": write end["next"].""",
    ),
    (LooksAtTheNote, "it must not look at handed-out"),
    (noting(('(end["next"])', '(end["nxet"])')), "It raised KeyError: 'nxet'"),
    more=(NumberReader, report(KEPT), "handed-out"),
)


def test_a_right_note_does_not_make_up_for_a_broken_promise() -> None:
    look(check_11(Noting, NumberReader, report(BROKEN), note="handed-out"), "✗ restart: ")
