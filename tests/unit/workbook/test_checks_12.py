"""The check of notebook 12 passes on what the kit finds, in a line."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from tests.unit.workbook.answers import changed, look, tried
from tutorial_pkg.core.worker import task_property, this_task
from tutorial_pkg.testing import Report, Verdict
from tutorial_pkg.workbook.checks import check_12_1
from tutorial_pkg.workbook.number_files import (
    NumberReader,
    NumberWriter,
    Slice,
    Values,
    numbers_in,
)

KEPT = Verdict("every_row_once", "Every row comes once.", "✓")
BROKEN = Verdict(
    "restart", "It goes on.", "✗", "after a restart:\nof 60 rows 20 too many", "Mend it."
)


def report(*verdicts: Verdict) -> Any:
    return lambda answer: Report(answer.__name__, list(verdicts), 1.0)


class Greedy(NumberReader):
    def partitions(self, start, end):
        return [Slice(start["next"], end["next"])]

    def read(self, part):
        yield from ((number,) for number in numbers_in(self.path)[part.start :])


class Mended(Greedy):
    def read(self, part):
        yield from ((number,) for number in numbers_in(self.path)[part.start : part.end])


def test_what_the_kit_finds_is_told_in_a_line() -> None:
    verdict = check_12_1(Mended, Greedy, report(KEPT, KEPT))
    assert repr(verdict) == "✓ 2 promises were tried, and all are kept."
    verdict = check_12_1(Mended, Greedy, report(KEPT, BROKEN))
    assert repr(verdict) == "✗ restart: after a restart: of 60 rows 20 too many → Mend it."


ANOTHER = "A class is wanted that extends Greedy: write `class Mended(Greedy)"
test_what_does_not_mend_the_class_of_the_exercise = tried(
    check_12_1,
    (3, ANOTHER),
    (Greedy, ANOTHER),
    (NumberReader, ANOTHER),
    (NumberWriter, ANOTHER),
    more=(Greedy, report(KEPT)),
)


class WithoutRead(NumberReader):
    partitions = Greedy.partitions


def test_a_method_that_is_missing_is_named() -> None:
    look(check_12_1(WithoutRead, NumberReader, report(KEPT)), "`WithoutRead` has no `read`")


# ---- The sinks of exercises 4 and 5 --------------------------------------------------------------


class OneFile(NumberWriter):
    def write(self, iterator):
        return Values(task_property("sql.streaming.queryId"), [row.value for row in iterator])

    def commit(self, messages, batchId):
        values = [value for message in messages for value in message.values]
        draft = self.path / f".draft-{messages[0].query}"
        draft.write_text("".join(f"{value}\n" for value in values))
        draft.replace(self.path / f"{messages[0].query}-{batchId}.txt")


sink = partial(changed, OneFile)


class Direct(OneFile):
    def write(self, iterator):
        number = this_task().partitionId()
        (self.path / f"{number}.txt").write_text("".join(f"{row.value}\n" for row in iterator))
        return Values("q", [])


class AFileForEachMessage(OneFile):
    def commit(self, messages, batchId):
        for number, message in enumerate(messages):
            draft = self.path / "draft"
            draft.write_text("".join(f"{value}\n" for value in message.values))
            draft.replace(self.path / f"{message.query}-{batchId}-{number}.txt")


class AppendsAndThenNotes(OneFile):
    def commit(self, messages, batchId):
        done = self.path / f"done-{messages[0].query}-{batchId}"
        if not done.exists():
            with open(self.path / "all.txt", "a") as file:
                file.writelines(f"{value}\n" for message in messages for value in message.values)
            done.touch()


class DropsWhatIsThere(OneFile):
    def commit(self, messages, batchId):
        there = {line for file in self.path.glob("*.txt") for line in file.read_text().split()}
        for message in messages:
            message.values = [value for value in message.values if value not in there]
        super().commit(messages, batchId)


EACH = "for message in messages for value in message.values]"
ONCE = "for value in {value for message in messages for value in message.values}]"
LINES = '"".join(f"{value}\\n" for value in values)'
IN_PLACE = ((".draft-{messages[0].query}", "{batchId}.txt"), ("draft.replace", "str"))
test_a_batch_is_shown_by_one_rename = tried(
    check_12_1,
    (OneFile, "✓ 1 promises were tried"),
    (Direct, "`write` shows rows to readers"),
    (
        sink((".draft-{messages[0].query}", "{batchId}.txt"), ("draft.replace", "str")),
        "writes where",
    ),
    (sink((".draft-{messages[0].query}", "{batchId}.draft.txt")), "a draft must not match *.txt"),
    (sink(("def commit", "def committed")), "`commit` shows nothing"),
    (AFileForEachMessage, "`commit` shows 2 files one by one"),
    (AppendsAndThenNotes, "`commit` writes where readers look"),
    (DropsWhatIsThere, "readers see ['1', '2', '2']: each row counts"),
    (
        sink(("for message in messages for value in message.values]", ONCE)),
        "readers see ['1', '2']",
    ),
    (sink((LINES, '"\\n".join(values)')), "The last line has no newline"),
    more=(NumberWriter, report(KEPT)),
)


# ---- The note of exercise 3 ----------------------------------------------------------------------


class Noting(Mended):
    def commit(self, end):
        self.note.write_text(str(end["next"]))

    @property
    def note(self) -> Path:
        return Path(self.path) / "handed-out"


noting = partial(changed, Noting)


class NotesInRead(Noting):
    def read(self, part):
        yield from super().read(part)
        self.note.write_text(str(part.end))


class NotesInPartitions(Noting):
    def partitions(self, start, end):
        self.commit(end)
        return super().partitions(start, end)


class LooksAtTheNote(Noting):
    def read(self, part):
        first = int(self.note.read_text()) if self.note.exists() else 0
        yield from super().read(Slice(max(first, part.start), part.end))


test_the_note = tried(
    check_12_1,
    (Noting, "✓ 1 promises were tried"),
    (noting(("def commit", "def committed")), "There is no note handed-out after `commit(end)`"),
    (NotesInRead, "`read` has written the note handed-out"),
    (
        noting(('str(end["next"])', "str(end)")),
        """handed-out says "{'next': 3}": write end["next"].""",
    ),
    (NotesInPartitions, "`partitions` has written the note handed-out"),
    (noting(("Path(self.path)", "Path()")), "The note is in Python's own folder"),
    (LooksAtTheNote, "it must not look at handed-out"),
    (noting(('(end["next"])', '(end["nxet"])')), "It raised KeyError: 'nxet'"),
    more=(NumberReader, report(KEPT), "handed-out"),
)


def test_a_right_note_does_not_make_up_for_a_broken_promise() -> None:
    look(check_12_1(Noting, NumberReader, report(BROKEN), note="handed-out"), "✗ restart: ")
