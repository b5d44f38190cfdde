"""Checks of notebook 09: the learner's functions are called here as the builder would."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tutorial_pkg.workbook.checks.verdict import Verdict, exercise, not_yet, right

Answer = Callable[..., Any]


class Added:
    """Stands for the builder's buffer: what one `fill` adds."""

    def __init__(self) -> None:
        self.rows: list[Any] = []
        self.tokens: list[Any] = []

    def add(self, row: Any, token: Any = None) -> None:
        self.rows.append(row)
        self.tokens += [token] if token is not None else []


def _context(index: int = 0, count: int = 1, **options: Any) -> SimpleNamespace:
    return SimpleNamespace(index=index, count=count, options=SimpleNamespace(**options))


class _Wrong(Exception):
    """The answer is wrong; the text says how."""


# ---- Exercise 1: a mailbox that reads no letter twice --------------------------------------------


@exercise
def check_09_1(answer: Any, mailbox: type, acknowledge: Answer) -> Verdict:
    """Does the class `answer` read each letter once, when the process dies in between?"""
    if not isinstance(answer, type) or not issubclass(answer, mailbox):
        return not_yet("A class is wanted that extends Mailbox: class Once(Mailbox): ...")
    for name in ("snapshot", "restore"):
        if not callable(getattr(answer, name, None)):
            return not_yet(
                f"`{answer.__name__}` has no method `{name}`: the builder will ask for it."
            )
    with tempfile.TemporaryDirectory() as folder:
        try:
            _mail(answer, Path(folder), acknowledge)
        except _Wrong as wrong:
            return not_yet(str(wrong))
        except Exception as error:  # whatever the learner's methods raise is a wrong answer
            return not_yet(f"It raised {type(error).__name__}: {str(error)[:100]}.")
    return right("In the log and named in the snapshot: such a letter is acknowledged, not read.")


def _mail(box: Any, folder: Path, acknowledge: Answer) -> None:
    first = _fresh(box, folder)
    rows: list[Any] = []
    for name in ("1.txt", "2.txt"):  # in two fills, and no acknowledgement between them
        _post(folder, name)
        first, added = _filled(first)
        rows += added
        snapshot = _as_json(first)
    if len(rows) != 2 or any(not (folder / name).exists() for name in ("1.txt", "2.txt")):
        raise _Wrong("`fill` must add both letters, and leave them until they are acknowledged.")
    # The process dies here: both letters are in the log, and nobody was told so.
    _post(folder, "3.txt")
    second = box(_context(letters=str(folder)))
    second.restore([snapshot])
    _as_json(second)
    second, rows = _filled(second)
    if rows != ["letter 3.txt"]:
        raise _Wrong(
            f"Letters 1 and 2 are in the log, letter 3 is new; after a restart it added {rows}: "
            "`restore` must know from the snapshot which ones were handed out."
        )
    acknowledge(second, ["3.txt"])
    _nothing_stays(folder)
    _does_not_grow(box, folder, acknowledge, restarts=False)
    _does_not_grow(box, folder, acknowledge, restarts=True)


def _fresh(box: Any, folder: Path) -> Any:
    """A new state, asked for its snapshot as the builder does when there was no `fill` yet."""
    state = box(_context(letters=str(folder)))
    try:
        _as_json(state)
    except _Wrong:
        raise
    except Exception as error:
        raise _Wrong(
            "The builder asks for a snapshot before the first `fill` too: yours raised "
            f"{type(error).__name__}: {str(error)[:100]}."
        ) from None
    return state


def _nothing_stays(folder: Path) -> None:
    left = sorted(letter.name for letter in folder.iterdir())
    if left:
        raise _Wrong(
            f"{', '.join(left)} stays in the folder for ever: what the snapshot names is on disk, "
            "so `restore` may acknowledge it."
        )


def _does_not_grow(box: Any, folder: Path, acknowledge: Answer, *, restarts: bool) -> None:
    state, lengths = box(_context(letters=str(folder))), []
    for number in range(200):
        name = f"{'restarted' if restarts else 'more'}-{number:03}.txt"
        _post(folder, name)
        state, _ = _filled(state)
        snapshot = _as_json(state)
        lengths.append(len(json.dumps(snapshot)))
        acknowledge(state, [name])
        if restarts:
            state = box(_context(letters=str(folder)))
            state.restore([snapshot])
    if lengths[-1] > 1.5 * lengths[100]:  # a history of some names may stay
        when = ", from restart to restart" if restarts else ""
        raise _Wrong(
            f"The snapshot grows with every letter that ever came{when}: a letter that is "
            "acknowledged does not come again, so forget its name."
        )


def _post(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).write_text(f"letter {name}")


def _filled(state: Any) -> tuple[Any, list[Any]]:
    buffer = Added()
    state.fill(buffer)
    return state, buffer.rows


def _as_json(state: Any) -> Any:
    """The snapshot as the builder gives it back."""
    snapshot = state.snapshot()
    try:
        return json.loads(json.dumps(snapshot, allow_nan=False))
    except (TypeError, ValueError):
        kind = type(snapshot).__name__
        raise _Wrong(f"The snapshot is a {kind}, and JSON has none: return a list.") from None


# ---- Exercise 2: snapshots of another number of instances ----------------------------------------


@exercise
def check_09_2(answer: Answer, feeds: type) -> Verdict:
    """Does `answer` go on from snapshots of another number of instances of `feeds`?"""
    if not callable(answer):
        return not_yet("A function is wanted: def restore(feeds, snapshots): ...")
    for before, after in ((2, 2), (2, 3), (3, 1), (1, 2), (4, 3)):
        try:
            _change(answer, feeds, before, after)
        except _Wrong as wrong:
            return not_yet(f"From {before} to {after} instances: {wrong}")
        except Exception as error:  # whatever the learner's function raises is a wrong answer
            return not_yet(
                f"From {before} to {after} instances it raised {type(error).__name__}: "
                f"{str(error)[:100]}. There is one snapshot for each instance of *before*."
            )
    return right("Each sensor goes on where it was, whoever had it before.")


def _change(restore: Answer, feeds: type, before: int, after: int) -> None:
    old = [_start(feeds, index, before) for index in range(before)]
    for steps, state in enumerate(old, start=2):
        for _ in range(steps):
            state.fill(Added())
    snapshots = [dict(state.next) for state in old]
    del snapshots[0]["a"]  # as if sensor a were new
    known = {sensor: number for snapshot in snapshots for sensor, number in snapshot.items()}
    _compare(_restored(restore, feeds, snapshots, after), {"a": 0, **known})


def _restored(
    restore: Answer, feeds: type, snapshots: list[dict[str, int]], count: int
) -> list[dict[str, int]]:
    found = []
    for index in range(count):
        state = _start(feeds, index, count)
        restore(state, json.loads(json.dumps(snapshots)))
        found.append(state.next)
    return found


def _compare(found: list[Any], wanted: dict[str, int]) -> None:
    if any(not isinstance(each, dict) for each in found):
        raise _Wrong("`feeds.next` must stay a dict: sensor by sensor, the next number.")
    times = Counter(sensor for each in found for sensor in each)
    twice, missing = sorted(s for s in times if times[s] > 1), sorted(wanted.keys() - times.keys())
    if twice:
        raise _Wrong(
            f"two instances read sensor {twice[0]}, so it comes twice: an instance keeps to the "
            "sensors that it was created with."
        )
    if missing:
        raise _Wrong(f"nobody reads sensor {missing[0]}: one that no snapshot knows is new.")
    for sensor, number in sorted({s: n for each in found for s, n in each.items()}.items()):
        if number != wanted[sensor]:
            raise _Wrong(_position_text(sensor, number, wanted[sensor]))


def _position_text(sensor: str, number: int, wanted: int) -> str:
    if wanted == 0:
        return f"sensor {sensor} is in no snapshot, so it starts at 0; yours starts at {number}."
    return (
        f"sensor {sensor} must go on at {wanted}, yours at {number}: another instance may have had "
        "it before, so look into *all* snapshots."
    )


def _start(feeds: type, index: int, count: int) -> Any:
    return feeds(_context(index, count, until=1000))
