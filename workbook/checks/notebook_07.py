"""Checks of notebook 07."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from workbook.checks.trial import scratch
from workbook.checks.verdict import Case, Wrong, compare, exercise

# ---- Exercise 1: which batch is repeated? --------------------------------------------------------

_COMMITTED = (
    "When the last batch is committed, nothing is repeated: return None. (Beside each note is a "
    "hidden file such as .2.crc: take only names made of digits.)"
)
_BEGUN = (
    "offsets/2 has no commits/2, only a hidden .2.tmp that was never finished: the answer is (2, "
    "offset of batch 1, offset of 2). An offset is the last line of a note, as a dict: json.loads "
    "makes it."
)
_PURGED = (
    "Spark deletes old notes, here of batches 0 to 4 in `offsets` and 0 to 3 in `commits`: compare "
    "numbers of batches, not how many files there are."
)
_CHECKPOINTS = (  # first batch of which there is a note, batches begun, batches committed, hint
    (0, 3, 3, _COMMITTED),
    (0, 3, 2, _BEGUN),
    (0, 12, 11, "The last batch is 11, not 9: compare the names as numbers, not as text."),
    (0, 12, 12, "In `commits`, too, the last commit is 11, not 9: compare names as numbers."),
    (5, 8, 7, _PURGED),
    (0, 1, 0, "Batch 0 has no batch before it, so its start is None; `commits` is empty then."),
    (0, 1, 1, _COMMITTED),
)


@exercise("def repeated(checkpoint)")
def check_07_1(answer: Callable[[Path], Any]) -> str:
    """Does `answer` tell from a checkpoint which batch is going to be repeated?"""
    for first, batches, commits, hint in _CHECKPOINTS:
        with scratch() as folder:
            _write_checkpoint(folder, first, batches, commits)
            compare(answer, [Case((folder,), _wanted(batches, commits), hint)], key=_tuple)
    return "Begun and not committed: that batch runs again, with the very same offsets."


def _tuple(found: Any) -> Any:
    return tuple(found) if isinstance(found, list) else found


def _wanted(batches: int, commits: int) -> tuple[int, dict[str, int] | None, dict[str, int]] | None:
    last = batches - 1
    start = _offset(last - 1) if last else None
    return (last, start, _offset(last)) if commits < batches else None


def _offset(batch: int) -> dict[str, int]:
    return {"next": 10 * (batch + 1), "batch": batch}


def _write_checkpoint(folder: Path, first: int, batches: int, commits: int) -> None:
    """As Spark does, with the hidden checksum beside each note; notes before `first` are gone."""
    for kind, start, end in (("offsets", first, batches), ("commits", max(0, first - 1), commits)):
        (folder / kind).mkdir()
        numbers = [*range(start, end)]
        for batch in numbers[1:] + numbers[:1]:  # a file's age or place in a listing says nothing
            last = json.dumps(_offset(batch)) if kind == "offsets" else "{}"
            head = ["v1", '{"batchWatermarkMs":0}'] if kind == "offsets" else ["v1"]
            (folder / kind / str(batch)).write_text("\n".join([*head, last]))
            (folder / kind / f".{batch}.crc").write_bytes(b"crc\0")
    if commits < batches:  # the query died while it wrote the note
        (folder / "commits" / f".{commits}.tmp").touch()


# ---- Exercise 2: restored with other ports -------------------------------------------------------

_SAVED = {"11000": 5120, "11001": 880}
_PORTS = [
    Case((_SAVED, [11000, 11001]), _SAVED, "What is saved must win over 0."),
    Case(
        (_SAVED, [11000]),
        _SAVED,
        "Port 11001 is gone, and so are the lines in its log that nobody has read.",
    ),
    Case(
        (_SAVED, [11000, 11001, 11002]),
        {**_SAVED, "11002": 0},
        "A new port starts at 0, and the others go on.",
    ),
    Case(
        (_SAVED, [11003, 11001, 10999]),
        {**_SAVED, "10999": 0, "11003": 0},
        "11000 is gone, and 11003 and 10999 are new: both start at 0, and the old ones go on.",
    ),
    Case(
        (_SAVED, [12000]),
        {**_SAVED, "12000": 0},
        "All old ports are gone, and their logs still hold lines that nobody has read.",
    ),
    Case(({}, [11000]), {"11000": 0}, "Nothing is saved, so 11000 is new, and starts at 0."),
    Case(
        ({"11000": 0, "11001": 880}, [11001]),
        {"11000": 0, "11001": 880},
        "11000 is gone and at 0: all lines in its log are still to be read.",
    ),
]


@exercise("def restore(saved, ports)")
def check_07_2(answer: Callable[..., dict[str, int]]) -> str:
    """Does `answer` go on from a saved offset with other ports, losing and repeating nothing?"""
    compare(answer, _PORTS, key=_as_saved)
    return "Old ports are read to their end, new ones start empty."


def _as_saved(found: Any) -> dict[str, int]:
    if not isinstance(found, dict):
        kind = "None: is there a `return`?" if found is None else f"{type(found).__name__}."
        raise Wrong(f"It must return a dict such as saved, not {kind}")
    if any(not isinstance(port, str) for port in found):
        raise Wrong("A key in JSON is a string: str(port), or 11000 and '11000' are two ports.")
    return found
