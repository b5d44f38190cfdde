"""The check of notebook 12 passes on what the kit finds, in a line."""

from __future__ import annotations

import os
import shutil
import zlib
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from spark_connector_tests import Report, Verdict
from tests.unit.workbook.answers import changed, look, tried
from tutorial_pkg.core.worker import task_property, this_task
from workbook.checks import check_12_1
from workbook.number_files import (
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
    failed = replace(BROKEN, seen="the query failed: TypeError: it is late")
    verdict = check_12_1(Mended, Greedy, report(failed))
    assert repr(verdict) == "✗ restart: the query failed: TypeError: it is late"


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


# ---- What any slice must give --------------------------------------------------------------------


class PositionInSelf(Mended):
    done = 0

    def partitions(self, start, end):
        first, self.done = max(start["next"], self.done), end["next"]
        return [Slice(first, end["next"])]


class PositionFromTheFirstStart(Mended):
    done = None

    def partitions(self, start, end):
        first = start["next"] if self.done is None else self.done
        self.done = end["next"]
        return [Slice(first, end["next"])]


class FromNowOn(Mended):
    def initialOffset(self):
        return self.latestOffset(None, None)


class InTwoParts(Mended):
    def partitions(self, start, end):
        middle = (start["next"] + end["next"]) // 2
        return [Slice(start["next"], middle), Slice(middle, end["next"])]


class ByBatch(Mended):
    def read(self, part):
        yield pa.record_batch({"value": numbers_in(self.path)[part.start : part.end]})


IN_FOLDER = "numbers_in(self.path)"
NUMBERS = "numbers_in(self.path)[part.start : part.end]"
test_any_slice = tried(
    check_12_1,
    (InTwoParts, "✓ 1 promises were tried"),
    (ByBatch, "✓ 1 promises were tried"),
    (PositionInSelf, "[10, 11, 12] are from position 0 on and before 3, yours are []"),
    (PositionFromTheFirstStart, "yours are []. Positions are not numbers, and `self`"),
    (changed(Mended, (NUMBERS, "range(part.start, part.end)")), "yours are [0, 1, 2]"),
    (changed(Mended, (IN_FOLDER, f"sorted(set({IN_FOLDER}))")), "yours are [13]. Keep the order"),
    (
        changed(Mended, (NUMBERS, "numbers_in(self.path)[part.start :] if number < part.end")),
        "yours are []. Positions are not numbers",
    ),
    (
        changed(Mended, (NUMBERS, f"dict.fromkeys({NUMBERS})")),
        "yours are [10, 11, 12, 13]. Keep the order",
    ),
    (
        changed(Mended, (NUMBERS, f"sorted({NUMBERS})")),
        "yours are [10, 13]. Keep the order of `numbers_in`",
    ),
    (
        changed(Mended, (IN_FOLDER, f"sorted({IN_FOLDER})")),
        "yours are [10, 10, 11]. Keep the order",
    ),
    (FromNowOn, "5 numbers are there, and `initialOffset` says {'next': 5}"),
    (changed(Mended, ("part.end]", "part.end + 1]")), "yours are [10, 11, 12, 13]"),
    more=(NumberReader, report(KEPT)),
)


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


class ByContent(OneFile):
    def commit(self, messages, batchId):
        text = "".join(f"{value}\n" for message in messages for value in message.values)
        draft = self.path / "draft"
        draft.write_text(text)
        draft.replace(self.path / f"{zlib.crc32(text.encode())}.txt")


class NotesFirst(OneFile):
    def commit(self, messages, batchId):
        done = self.path / f"done-{messages[0].query}-{batchId}"
        if not done.exists():
            done.touch()
            super().commit(messages, batchId)


class RewritesAndThenNotes(OneFile):
    def commit(self, messages, batchId):
        done = self.path / f"done-{messages[0].query}-{batchId}"
        if not done.exists():
            file, draft = self.path / "all.txt", self.path / "draft"
            text = "".join(f"{value}\n" for message in messages for value in message.values)
            draft.write_text((file.read_text() if file.exists() else "") + text)
            draft.replace(file)
            done.touch()


class DeletesFirst(OneFile):
    def commit(self, messages, batchId):
        (self.path / f"{messages[0].query}-{batchId}.txt").unlink(missing_ok=True)
        super().commit(messages, batchId)


class EmptiesFirst(OneFile):
    def commit(self, messages, batchId):
        file = self.path / f"{messages[0].query}-{batchId}.txt"
        if file.exists():
            file.write_text("")
        super().commit(messages, batchId)


class TakesBack(OneFile):
    def abort(self, messages, batchId):
        if queries := {message.query for message in messages if message}:
            (self.path / f"{queries.pop()}-{batchId}.txt").unlink(missing_ok=True)


class ClearsDrafts(OneFile):
    def abort(self, messages, batchId):
        for draft in self.path.glob(".draft-*"):
            draft.unlink()


class RenamesAnOpenDraft(OneFile):
    def commit(self, messages, batchId):
        draft = self.path / f".draft-{messages[0].query}"
        file = draft.open("w")
        file.writelines(f"{value}\n" for message in messages for value in message.values)
        draft.replace(self.path / f"{messages[0].query}-{batchId}.txt")


class AppendsToADraft(OneFile):
    def commit(self, messages, batchId):
        draft = self.path / f".draft-{messages[0].query}-{batchId}"
        with draft.open("a") as file:
            file.writelines(f"{value}\n" for message in messages for value in message.values)
        draft.rename(self.path / f"{messages[0].query}-{batchId}.txt")


class Staged(OneFile):
    """Each task writes a draft, and tells its name."""

    def write(self, iterator):
        query, batch = (
            task_property("sql.streaming.queryId"),
            task_property("streaming.sql.batchId"),
        )
        task = this_task()
        draft = self.path / f".{query}-{batch}-{task.partitionId()}-{task.attemptNumber()}"
        draft.write_text("".join(f"{row.value}\n" for row in iterator))
        return Values(query, [draft.name])

    def commit(self, messages, batchId):
        names = [name for message in messages for name in message.values]
        draft = self.path / f"draft-{messages[0].query}"
        draft.write_text("".join((self.path / name).read_text() for name in names))
        draft.rename(self.path / f"{messages[0].query}-{batchId}.txt")


class Links(OneFile):
    def commit(self, messages, batchId):
        draft = self.path / f".draft-{messages[0].query}"
        draft.write_text("".join(f"{value}\n" for message in messages for value in message.values))
        with suppress(FileExistsError):  # this batch has been here before
            (self.path / f"{messages[0].query}-{batchId}.txt").hardlink_to(draft)
        draft.unlink()


class ReplacesByKeywords(OneFile):
    def commit(self, messages, batchId):
        draft = self.path / f".draft-{messages[0].query}"
        draft.write_text("".join(f"{value}\n" for message in messages for value in message.values))
        os.replace(src=draft, dst=self.path / f"{messages[0].query}-{batchId}.txt")  # noqa: PTH105


class Copies(OneFile):
    def commit(self, messages, batchId):
        draft = self.path / f".draft-{messages[0].query}"
        draft.write_text("".join(f"{value}\n" for message in messages for value in message.values))
        shutil.copyfile(draft, self.path / f"{messages[0].query}-{batchId}.txt")


class OnlyIfItIsNotThere(OneFile):
    def commit(self, messages, batchId):
        if not (self.path / f"{messages[0].query}-{batchId}.txt").exists():
            super().commit(messages, batchId)


EACH = "for message in messages for value in message.values]"
ONCE = "for value in {value for message in messages for value in message.values}]"
ALL_DRAFTS = "draft.name for draft in self.path.glob(f'.q-{batchId}-*')"
LINES = '"".join(f"{value}\\n" for value in values)'
IN_PLACE = ((".draft-{messages[0].query}", "{batchId}.txt"), ("draft.replace", "str"))
test_a_batch_is_shown_by_one_rename = tried(
    check_12_1,
    (OneFile, "✓ 1 promises were tried"),
    (Direct, "`write` shows rows to readers"),
    (changed(Direct, ("{number}.txt", ".{number}.txt")), "a name that begins with a dot"),
    (
        sink((".draft-{messages[0].query}", "{batchId}.txt"), ("draft.replace", "str")),
        "writes where",
    ),
    (Copies, "write a draft, and move it there with `replace`. A copy grows"),
    (sink((".draft-{messages[0].query}", "{batchId}.draft.txt")), "a draft must not match *.txt"),
    (sink(("def commit", "def committed")), "`commit` shows nothing"),
    (AFileForEachMessage, "`commit` shows 2 files one by one"),
    (AppendsAndThenNotes, "`commit` writes where readers look"),
    (Staged, "✓ 1 promises were tried"),
    (OnlyIfItIsNotThere, "✓ 1 promises were tried"),
    (Links, "✓ 1 promises were tried"),
    (sink(("{batchId}.txt", "{batchId}-{len(messages)}.txt")), "of its 3 rows readers see 6"),
    (ReplacesByKeywords, "✓ 1 promises were tried"),
    (ByContent, "readers see ['1', '2', '2', '2']: each row counts"),
    (
        NotesFirst,
        "A crash just before the rename, and the batch came again: of its 3 rows readers see 0",
    ),
    (
        RewritesAndThenNotes,
        "A crash just after the rename, and the batch came again: of its 3 rows readers see 6",
    ),
    (DeletesFirst, "readers lost its rows until the rename"),
    (EmptiesFirst, "readers lost its rows until the rename"),
    (TakesBack, "`abort` took back rows that readers had seen"),
    (ClearsDrafts, "✓ 1 promises were tried"),
    (RenamesAnOpenDraft, "after its rename: close, then rename"),
    (AppendsToADraft, "of its 3 rows readers see 6"),
    (
        changed(Staged, ("name for message in messages for name in message.values", ALL_DRAFTS)),
        "only those of the tasks whose messages came",
    ),
    (
        sink(('self.path / f".draft', 'Path("/tmp") / f".draft')),
        "The draft is in another folder",
    ),
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


class StartsAtTheNote(Noting):
    def initialOffset(self):
        return {"next": int(self.note.read_text()) if self.note.exists() else 0}


class NotesInLatest(Noting):
    def latestOffset(self, start, limit):
        self.note.write_text(str(start["next"]))
        return super().latestOffset(start, limit)


WRITE = 'self.note.write_text(str(end["next"]))'
test_the_note = tried(
    check_12_1,
    (noting((WRITE, 'print(end["next"], file=self.note.open("w"))')), "✓ 1 promises were tried"),
    (noting((WRITE, 'self.note.open("a").write(str(end["next"]))')), "handed-out says '34'"),
    (
        noting((WRITE, f"self.note.exists() or {WRITE}")),
        "4 numbers are done, and handed-out says '3'",
    ),
    (noting(('str(end["next"])', "str(len(numbers_in(self.path)))")), "handed-out says '5'"),
    (noting(('str(end["next"])', 'str(numbers_in(self.path)[end["next"] - 1])')), "says '12'"),
    (StartsAtTheNote, "nothing must look at handed-out"),
    (NotesInLatest, "`latestOffset` has written the note handed-out"),
    (Noting, "✓ 1 promises were tried"),
    (noting(("def commit", "def committed")), "There is no note handed-out after `commit(end)`"),
    (NotesInRead, "`read` has written the note handed-out"),
    (
        noting(('str(end["next"])', "str(end)")),
        """handed-out says "{'next': 3}": write end["next"]""",
    ),
    (NotesInPartitions, "`partitions` has written the note handed-out"),
    (noting(("Path(self.path)", "Path()")), "The note is in Python's own folder"),
    (LooksAtTheNote, "nothing must look at handed-out"),
    (noting(('(end["next"])', '(end["nxet"])')), "It raised KeyError: 'nxet'"),
    more=(NumberReader, report(KEPT), "handed-out"),
)


def test_a_right_note_does_not_make_up_for_a_broken_promise() -> None:
    look(check_12_1(Noting, NumberReader, report(BROKEN), note="handed-out"), "✗ restart: ")
