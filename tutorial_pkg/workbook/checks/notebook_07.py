"""Checks of notebook 07."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tutorial_pkg.workbook.checks.verdict import Verdict, exercise, not_yet, right

Answer = Callable[..., Any]


@exercise
def check_07_1(answer: Answer) -> Verdict:
    """Does `answer` tell from a checkpoint which batch is going to be repeated?"""
    if not callable(answer):
        return not_yet("A function is wanted: def repeated(checkpoint): ...")
    for first, batches, commits, hint in (
        (0, 3, 3, "When the last batch is committed, nothing is repeated: return None."),
        (0, 3, 2, "offsets/2 has no commits/2: the answer is (2, offset of batch 1, offset of 2)."),
        (0, 12, 11, "The last batch is 11, not 9: compare the names as numbers, not as text."),
        (5, 8, 7, _PURGED),
        (0, 1, 0, "Batch 0 has no batch before it, so its start is None; `commits` is empty then."),
    ):
        found = _repeated(answer, first, batches, commits)
        wanted = _wanted(batches, commits)
        if isinstance(found, Exception):
            return not_yet(_about(found, hint))
        if found != wanted:
            return not_yet(f"{hint} Yours gives {found}.")
    return right("Begun and not committed: that batch runs again, with the very same offsets.")


_PURGED = (
    "Spark deletes old notes, here of batches 0 to 4 in `offsets` and 0 to 3 in `commits`: compare "
    "numbers of batches, not how many files there are."
)


def _repeated(answer: Answer, first: int, batches: int, commits: int) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        _write_checkpoint(Path(folder), first, batches, commits)
        found = _call(answer, Path(folder))
    return tuple(found) if isinstance(found, list) else found


def _wanted(batches: int, commits: int) -> tuple[int, dict[str, int] | None, dict[str, int]] | None:
    last = batches - 1
    start = _offset(last - 1) if last else None
    return (last, start, _offset(last)) if commits < batches else None


def _offset(batch: int) -> dict[str, int]:
    return {"next": 10 * (batch + 1)}


def _write_checkpoint(folder: Path, first: int, batches: int, commits: int) -> None:
    """As Spark does, with the hidden checksum beside each note; notes before `first` are gone."""
    for kind, start, end in (("offsets", first, batches), ("commits", max(0, first - 1), commits)):
        (folder / kind).mkdir()
        for batch in reversed(range(start, end)):  # so that a file's age says nothing
            last = json.dumps(_offset(batch)) if kind == "offsets" else "{}"
            head = ["v1", '{"batchWatermarkMs":0}'] if kind == "offsets" else ["v1"]
            (folder / kind / str(batch)).write_text("\n".join([*head, last]))
            (folder / kind / f".{batch}.crc").write_bytes(b"crc\0")


def _about(error: Exception, hint: str) -> str:
    if ".crc" in str(error) or isinstance(error, UnicodeDecodeError):
        return "Beside each note is a hidden file such as .2.crc: take the names made of digits."
    return f"Your function raised {type(error).__name__}: {str(error)[:80]}. {hint}"


@exercise
def check_07_2(answer: Answer) -> Verdict:
    """Does `answer` go on from a saved offset with other ports, losing and repeating nothing?"""
    if not callable(answer):
        return not_yet("A function is wanted: def restore(saved, ports): ...")
    saved = {"11000": 5120, "11001": 880}
    same, fewer = _call(answer, dict(saved), [11000, 11001]), _call(answer, dict(saved), [11000])
    more = _call(answer, dict(saved), [11000, 11001, 11002])
    for found in (same, fewer, more):
        if isinstance(found, Exception):
            return not_yet(f"It raised {type(found).__name__}: {str(found)[:80]}.")
        if not isinstance(found, dict):
            kind = "None: is there a `return`?" if found is None else f"{type(found).__name__}."
            return not_yet(f"It must return a dict such as saved, not {kind}")
    if any(not isinstance(port, str) for found in (same, fewer, more) for port in found):
        return not_yet("A key in JSON is a string: str(port), or 11000 and '11000' are two ports.")
    if same != saved:
        return not_yet(f"With the ports of before it gives {same}: what is saved must win over 0.")
    if fewer != saved:
        return not_yet("Port 11001 is gone, and so are the lines in its log that nobody has read.")
    if more != {**saved, "11002": 0}:
        return not_yet(f"A new port starts at 0 and the others go on; yours gives {more}.")
    return right("Old ports are read to their end, new ones start empty.")


def _call(function: Answer, *arguments: Any) -> Any:
    try:
        return function(*arguments)
    except Exception as error:  # whatever the learner's function raises is a wrong answer
        return error
