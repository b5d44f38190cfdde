"""Checks of notebook 12: the conformance kit itself."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import chdir
from pathlib import Path
from typing import Any

from pyspark.sql import Row
from pyspark.sql.datasource import DataSourceStreamReader

from tutorial_pkg.testing import Report
from tutorial_pkg.workbook.checks.trial import Renamed, copied, renames, scratch, texts, written
from tutorial_pkg.workbook.checks.verdict import Wrong, exercise
from tutorial_pkg.workbook.number_files import NumberReader, NumberWriter

Examine = Callable[[type], Report]


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
            raise Wrong(f"{verdict.name}: {seen} → {verdict.remedy}")
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


# ---- The sinks of exercises 4 and 5 --------------------------------------------------------------

READERS_SEE = "*.txt"
_PARTS = [[Row(value="1"), Row(value="2")], [Row(value="2")]]


def _commits_at_once(writer: Any, folder: Path) -> None:
    """All that readers see of a batch must come by one rename, whatever they saw before."""
    made = writer(str(folder))
    for batch, parts in enumerate((_PARTS, _PARTS[1:])):  # a 2 again: a number is no key
        before = texts(folder, READERS_SEE)
        messages = written(made, parts, batch=batch)
        if texts(folder, READERS_SEE) != before:
            raise Wrong("`write` shows rows to readers: hand them to `commit` in Values.")
        with renames(folder, READERS_SEE) as renamed:
            copied(made).commit(messages, batch)
        _look_at_renames(folder, before, renamed)
        rows = [row.value for part in parts for row in part]
        _compare(folder, before, sorted([*_rows(before), *rows]))


def _look_at_renames(folder: Path, before: dict[str, str], renamed: list[Renamed]) -> None:
    place = folder.resolve()
    shown = [
        each
        for each in renamed
        if each.target.match(READERS_SEE) and each.target.parent.resolve() == place
    ]
    if texts(folder, READERS_SEE) == before:
        raise Wrong(f"`commit` shows nothing: give the rows a file that matches {READERS_SEE}.")
    if not shown:
        raise Wrong("`commit` writes where readers look: write a draft, then rename it.")
    if len(shown) > 1:
        raise Wrong(f"`commit` shows {len(shown)} files one by one: make one file for the batch.")
    draft = shown[0]
    if draft.visible != before:
        raise Wrong(f"Readers saw rows before the rename: a draft must not match {READERS_SEE}.")
    if draft.text and not draft.text.endswith("\n"):
        raise Wrong("The last line has no newline: each row is a line, and a line ends with one.")
    if texts(folder, READERS_SEE) != {**before, draft.target.name: draft.text}:
        raise Wrong("`commit` writes more where readers look, after its rename: rename at the end.")


def _compare(folder: Path, before: dict[str, str], wanted: list[str]) -> None:
    found = sorted(_rows(texts(folder, READERS_SEE)))
    if found != wanted:
        raise Wrong(
            f"Of batches with the rows 1, 2, 2 and 2 readers see {found}: each row counts, even "
            "one that was there before. Tell batches by their number."
        )


def _rows(visible: dict[str, str]) -> list[str]:
    return [line for text in visible.values() for line in text.splitlines()]


# ---- The note of exercise 3 ----------------------------------------------------------------------


def _noted_in_commit(reader: type, note: str) -> None:
    """`commit` notes how many numbers are through; `read` neither writes the note nor heeds it."""
    with scratch() as folder, scratch() as elsewhere, chdir(elsewhere):
        (folder / "0.txt").write_text("0\n1\n2\n")
        made, file = reader(str(folder)), folder / note
        first = _read(made, file)
        made.commit({"next": 3})
        if (elsewhere / note).exists():
            raise Wrong(f"The note is in Python's own folder: write Path(self.path) / {note!r}.")
        if not file.exists():
            raise Wrong(f"There is no note {note} after `commit(end)`: write it there.")
        text = file.read_text().strip()
        if text != "3":
            raise Wrong(f'3 numbers are done, and {note} says {text[:40]!r}: write end["next"].')
        if _read(made, None) != first:
            raise Wrong(f"After `commit`, `read` gives other rows: it must not look at {note}.")


def _read(reader: Any, note: Path | None) -> list[Any]:
    """The rows of one batch; nothing may write the `note` on the way."""
    rows: list[Any] = []
    parts = reader.partitions({"next": 0}, {"next": 3})
    for name, steps in (("partitions", ()), ("read", parts)):
        for part in steps:
            rows += reader.read(part)
        if note and note.exists():
            raise Wrong(f"`{name}` has written the note {note.name}: write it in `commit` only.")
    return rows
