"""Checks of notebook 11: the conformance kit itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tutorial_pkg.testing import Report
from tutorial_pkg.workbook.checks.trial import scratch
from tutorial_pkg.workbook.checks.verdict import Wrong, exercise

Examine = Callable[[type], Report]


@exercise()
def check_11(answer: Any, base: type, examine: Examine, note: str | None = None) -> str:
    """Does the class `answer`, which extends `base`, keep every promise that `examine` tries?

    A reader that is to keep a `note`, a file of this name, must write it in `commit`.
    """
    if not isinstance(answer, type) or answer is base or not issubclass(answer, base):
        name = base.__name__
        raise Wrong(
            f"A class is wanted that extends {name}: write `class Mended({name}): ...`. "
            f"If {name} was defined again since, run your cell again, too."
        )
    if note is not None:
        _noted_in_commit(answer, note)
    report = examine(answer)
    for verdict in report.verdicts:
        if verdict.name in report.broken:
            seen = " ".join(verdict.seen.split())[:300]
            raise Wrong(f"{verdict.name}: {seen} → {verdict.remedy}")
    return f"{len(report.verdicts)} promises were tried, and all are kept."


def _noted_in_commit(reader: type, note: str) -> None:
    """`commit` notes how many numbers are through; `read` neither writes the note nor heeds it."""
    with scratch() as folder:
        (folder / "0.txt").write_text("0\n1\n2\n")
        made, file = reader(str(folder)), folder / note

        def rows() -> list[Any]:
            parts = made.partitions({"next": 0}, {"next": 3})
            return [row for part in parts for row in made.read(part)]

        first = rows()
        if file.exists():
            raise Wrong(f"`read` has written the note {note}: write it in `commit` only.")
        made.commit({"next": 3})
        if not file.exists():
            raise Wrong(f"There is no note {note} after `commit(end)`: write it there.")
        text = file.read_text().strip()
        if text != "3":
            raise Wrong(f'3 numbers are through, and {note} says {text[:40]!r}: write end["next"].')
        if rows() != first:
            raise Wrong(f"After `commit`, `read` gives other rows: it must not look at {note}.")
