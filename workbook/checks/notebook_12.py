"""Checks of notebook 12: the conformance kit itself."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest import mock

from pyspark.sql import Row
from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming.datasource import ReadAllAvailable

from spark_connector_tests import Report
from workbook.checks.trial import (
    Renamed,
    copied,
    renames,
    rows_between,
    scratch,
    texts,
    written,
)
from workbook.checks.verdict import Wrong, exercise
from workbook.number_files import NumberReader, NumberWriter

Examine = Callable[[type], Report]
FAILED = "the query failed: "  # what was raised says more than the remedy


def _keeps_all(answer: Any, base: type, examine: Examine, note: str | None = None) -> str:
    """Does the class `answer`, which extends `base`, keep every promise that `examine` tries?

    A reader that is to keep a `note`, a file of this name, must write it in `commit`.
    """
    if not isinstance(answer, type) or answer is base or not issubclass(answer, base):
        name = base.__name__
        raise Wrong(
            f"A class is wanted that extends {name}: write `class Mended({name}): ...`. "
            f"If {name} was defined again since, run your cell again, too."
        )
    if issubclass(base, NumberReader):
        _has_all(answer)
    if issubclass(base, NumberWriter):
        with scratch() as folder:
            _commits_at_once(answer, folder)
    if note is not None:
        _noted_in_commit(answer, note)
    report = examine(answer)
    for verdict in report.verdicts:
        if verdict.name in report.broken:
            seen = " ".join(verdict.seen.split())[:300]
            remedy = "" if FAILED in seen else f" → {verdict.remedy}"
            raise Wrong(f"{verdict.name}: {seen}{remedy}")
    if issubclass(base, NumberReader):
        _reads_any_slice(answer)
    return f"{len(report.verdicts)} promises were tried, and all are kept."


check_12_1, check_12_2, check_12_3, check_12_4, check_12_5 = (
    exercise(name=f"check_12_{number}")(_keeps_all) for number in range(1, 6)
)


def _has_all(reader: type) -> None:
    """Spark hides what is raised where a reader is made, as for a method that is missing."""
    for name in ("partitions", "read"):
        if getattr(reader, name) is getattr(DataSourceStreamReader, name):
            raise Wrong(f"`{reader.__name__}` has no `{name}`: write it, too.")
    reader("nowhere")


_NUMBERS = [10, 11, 12, 13, 10]


def _reads_any_slice(reader: type) -> None:
    """One object is asked for slices in any order, of numbers that are not their positions."""
    with _folder_of_numbers() as folder:
        made = reader(str(folder))
        if (first := made.initialOffset()) != {"next": 0}:
            raise Wrong(
                f"{len(_NUMBERS)} numbers are there, and `initialOffset` says {first}: a new query "
                "begins with what was there before it. Leave that method as it is."
            )
        for start, end in ((0, 3), (3, 5), (0, 3), (1, 2), (0, 5)):
            found: list[Any] = rows_between(made, {"next": start}, {"next": end})
            if found != _NUMBERS[start:end]:
                raise Wrong(
                    f"{_NUMBERS} are there: {_NUMBERS[start:end]} are from position {start} on and "
                    f"before {end}, yours are {found}. {_slice_hint(found, start, end)}"
                )


def _slice_hint(found: list[Any], start: int, end: int) -> str:
    for numbers in (_NUMBERS, [*dict.fromkeys(_NUMBERS)]):
        for cut in (numbers[start:end], sorted(numbers)[start:end], sorted(numbers[start:end])):
            if found in (cut, [*dict.fromkeys(cut)]):
                return "Keep the order of `numbers_in`, and equal numbers, too."
    return (
        "Positions are not numbers, and `self` must not keep one: Spark may ask for a slice again."
    )


@contextmanager
def _folder_of_numbers() -> Iterator[Path]:
    with scratch() as folder:
        (folder / "0.txt").write_text("".join(f"{number}\n" for number in _NUMBERS))
        yield folder


# ---- The sinks of exercises 4 and 5 --------------------------------------------------------------

READERS_SEE = "*.txt"
_PARTS = [[Row(value="1"), Row(value="2")], [Row(value="2")]]
_IN_ONE_TASK = [[row for part in _PARTS for row in part]]
_FAILED = [Row(value="3")]


def _commits_at_once(writer: Any, folder: Path) -> None:
    """All that readers see of a batch must come by one rename, whatever they saw before."""
    made = writer(str(folder))
    for batch, parts in enumerate(
        (_PARTS, _PARTS[1:], _PARTS[1:])
    ):  # a 2 again: a number is no key
        before = texts(folder, READERS_SEE)
        written(made, [*parts, _FAILED], batch=batch)  # a try that failed, with a task more
        messages = written(made, parts, attempt=1, batch=batch)
        if texts(folder, READERS_SEE) != before:
            raise Wrong(
                f"`write` shows rows to readers: hand them to `commit` in Values. ({READERS_SEE} "
                "also matches a name that begins with a dot.)"
            )
        with renames(folder, READERS_SEE) as renamed:
            copied(made).commit(messages, batch)
        _look_at_renames(folder, before, renamed)
        rows = [row.value for part in parts for row in part]
        _compare(folder, before, sorted([*_rows(before), *rows]))
    for batch, done in ((3, False), (4, True)):
        _outlives_an_accident(made, folder, batch, done)


class _PowerFails(BaseException):
    """What no answer catches."""


def _outlives_an_accident(made: Any, folder: Path, batch: int, done: bool) -> None:
    """`commit` ends just before or after its rename, and the batch comes again."""

    def breaking(rename: Callable[..., None]) -> Callable[..., None]:
        def renaming(src: Any, dst: Any, **places: Any) -> None:
            shows = Path(dst).match(READERS_SEE)
            if done or not shows:
                rename(src, dst, **places)
            if shows:
                raise _PowerFails

        return renaming

    before = _rows(texts(folder, READERS_SEE))
    with (
        suppress(_PowerFails),
        mock.patch.object(os, "rename", breaking(os.rename)),
        mock.patch.object(os, "replace", breaking(os.replace)),
    ):
        messages = written(made, _PARTS, batch=batch)
        copied(made).commit(messages, batch)
    seen = texts(folder, READERS_SEE)
    copied(made).abort(messages, batch)  # what Spark does when `commit` raises
    if texts(folder, READERS_SEE) != seen:
        raise Wrong(
            "`commit` failed after its rename, and `abort` took back rows that readers had seen: "
            "the batch comes again, so leave its file there."
        )
    with renames(folder, READERS_SEE) as renamed:
        copied(made).commit(written(made, _IN_ONE_TASK, attempt=1, batch=batch), batch)
    if not all(seen.items() <= each.visible.items() for each in renamed):
        raise Wrong(
            "A batch came again, and readers lost its rows until the rename: neither delete nor "
            "empty its file, `replace` puts the new one in its place."
        )
    found = len(_rows(texts(folder, READERS_SEE))) - len(before)
    if found != 3:
        raise Wrong(
            f"A crash just {'after' if done else 'before'} the rename, and the batch came again: "
            f"of its 3 rows readers see {found}. Let the file that the rename shows also say that "
            "the batch is done: its name is enough. Write a draft anew each time."
        )


def _look_at_renames(folder: Path, before: dict[str, str], renamed: list[Renamed]) -> None:
    place = folder.resolve()
    shown = [
        each
        for each in renamed
        if each.target.match(READERS_SEE) and each.target.parent.resolve() == place
    ]
    if not before and texts(folder, READERS_SEE) == before:
        raise Wrong(f"`commit` shows nothing: give the rows a file that matches {READERS_SEE}.")
    if not shown and texts(folder, READERS_SEE) == before:
        return  # an earlier batch is taken for this one, as will be told
    if not shown:
        raise Wrong(
            "`commit` writes where readers look: write a draft, and move it there with `replace`. "
            "A copy grows where they look."
        )
    if len(shown) > 1:
        raise Wrong(f"`commit` shows {len(shown)} files one by one: make one file for the batch.")
    draft = shown[0]
    if draft.visible != before:
        raise Wrong(f"Readers saw rows before the rename: a draft must not match {READERS_SEE}.")
    if not draft.file.resolve().is_relative_to(place):
        raise Wrong(
            "The draft is in another folder, perhaps on another disk: use self.path for it."
        )
    if draft.text and not draft.text.endswith("\n"):
        raise Wrong("The last line has no newline: each row is a line, and a line ends with one.")
    if texts(folder, READERS_SEE) != {**before, draft.target.name: draft.text}:
        raise Wrong(
            "`commit` writes more where readers look, after its rename: close, then rename."
        )


def _compare(folder: Path, before: dict[str, str], wanted: list[str]) -> None:
    found = sorted(_rows(texts(folder, READERS_SEE)))
    if found != wanted:
        raise Wrong(
            f"Of {wanted} readers see {found}: each row counts, even one that was there before, "
            "and only those of the tasks whose messages came. Tell batches by their number."
        )


def _rows(visible: dict[str, str]) -> list[str]:
    return [line for text in visible.values() for line in text.splitlines()]


# ---- The note of exercise 3 ----------------------------------------------------------------------


def _noted_in_commit(reader: type, note: str) -> None:
    """`commit` notes how many numbers are through; `read` neither writes the note nor heeds it."""
    with _folder_of_numbers() as folder, scratch() as elsewhere, chdir(elsewhere):
        made, file = reader(str(folder)), folder / note
        first = _read(made, file)
        for done in (3, 4):
            made.commit({"next": done})
            if (elsewhere / note).exists():
                raise Wrong(
                    f"The note is in Python's own folder: write Path(self.path) / {note!r}."
                )
            if not file.exists():
                raise Wrong(f"There is no note {note} after `commit(end)`: write it there.")
            text = file.read_text().strip()
            if text != str(done):
                raise Wrong(
                    f"{done} numbers are done, and {note} says {text[:40]!r}: write "
                    'end["next"], in place of what it said before.'
                )
        if _read(made, None) != first:
            raise Wrong(f"After `commit`, `read` gives other rows: nothing must look at {note}.")


def _read(reader: Any, note: Path | None) -> list[Any]:
    """The rows of one batch; nothing may write the `note` on the way."""
    start, found = reader.initialOffset(), list[Any]()
    steps: tuple[tuple[str, Callable[[Any], Any]], ...] = (
        ("latestOffset", lambda _: reader.latestOffset(start, ReadAllAvailable())),
        ("partitions", lambda _: reader.partitions(start, {"next": 3})),
        ("read", lambda parts: [row for part in parts for row in reader.read(part)]),
    )
    for name, step in steps:
        found = step(found)
        if note and note.exists():
            raise Wrong(f"`{name}` has written the note {note.name}: write it in `commit` only.")
    return found
