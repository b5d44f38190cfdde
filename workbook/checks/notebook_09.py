"""Checks of notebook 09: the learner's functions are called here as the builder would."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from workbook.checks.trial import Buffer, as_json, context_of, scratch
from workbook.checks.verdict import Wrong, exercise, is_class, told

# ---- Exercise 1: a mailbox that reads no letter twice --------------------------------------------

Acknowledge = Callable[[Any, list[str]], None]
LETTERS = 120


@exercise()
def check_09_1(answer: Any, mailbox: type, acknowledge: Acknowledge) -> str:
    """Does the class `answer` read each letter once, when the process dies in between?"""
    is_class(answer, "class Once(Mailbox)", mailbox)
    for name in ("snapshot", "restore"):
        if not callable(getattr(answer, name, None)):
            raise Wrong(f"`{answer.__name__}` has no method `{name}`: the builder will ask for it.")
    with scratch() as folder:
        _mail(answer, folder, acknowledge)
    return "No letter comes twice, and none stays in the folder."


def _mail(box: Any, folder: Path, acknowledge: Acknowledge) -> None:
    first = box(context_of(letters=str(folder)))
    empty = _snapshot(first, " The builder asks for one before the first `fill`, too.")
    _restored(box, folder, empty)
    for name in ("1.txt", "2.txt"):  # in two fills, and no acknowledgement between them
        _post(folder, name)
        _adds(first, name)
        _still_there(folder, "fill", "1.txt", name)
        _snapshot(first)
        _still_there(folder, "snapshot", "1.txt", name)
    _post(folder, "0.txt")  # after `fill` and before `snapshot`
    snapshot = _snapshot(first)
    # The process dies here: two letters are in the log, and nobody was told so.
    second = _restored(box, folder, snapshot)
    if "0.txt" in json.dumps(snapshot) or not (folder / "0.txt").exists():
        raise Wrong(
            "Letter 0 came after `fill` and before `snapshot`, and is lost now. A snapshot names "
            "what `fill` has added (`self.handed`); `restore` deletes only what the snapshot names."
        )
    _snapshot(second)
    rows = _filled(second).rows
    if rows != ["letter 0.txt"]:
        raise Wrong(
            f"Letters 1 and 2 are in the log, letter 0 is new; after a restart it added {rows}: "
            "`restore` must know from the snapshot which ones were handed out."
        )
    acknowledge(second, ["0.txt"])
    left = sorted(letter.name for letter in folder.iterdir())
    if left:
        raise Wrong(
            f"{', '.join(left)} would stay for ever: let `restore` acknowledge what it gets."
        )
    _does_not_grow(box, folder, acknowledge, restarts=False)
    _does_not_grow(box, folder, acknowledge, restarts=True)
    _lost_frame(box, folder)
    with scratch() as another:
        _half_acknowledged(box, another)


def _half_acknowledged(box: Any, folder: Path) -> None:
    """The process dies while it acknowledges: two of three letters are gone."""
    state = box(context_of(letters=str(folder)))
    for number in range(3):
        _post(folder, f"half-{number}.txt")
    _filled(state)
    snapshot = _snapshot(state)
    for number in (0, 2):
        (folder / f"half-{number}.txt").unlink()
    rows = _filled(_restored(box, folder, snapshot)).rows
    if rows:
        raise Wrong(
            "Letters 0 and 2 were acknowledged, letter 1 was not, and a snapshot names all three; "
            f"after a restart {rows} came. A letter that is gone must not keep the others from "
            "being acknowledged: unlink(missing_ok=True)."
        )


def _lost_frame(box: Any, folder: Path) -> None:
    """Of letters that were not acknowledged, the last one and its snapshot are not on disk."""
    state = box(context_of(letters=str(folder)))
    for number in range(LETTERS):
        _post(folder, f"logged-{number:02}.txt")
        _filled(state)
    on_disk = _snapshot(state)
    _post(folder, "lost.txt")
    _filled(state)
    _snapshot(state)
    rows = _filled(_restored(box, folder, on_disk)).rows
    if rows != ["letter lost.txt"]:
        raise Wrong(
            f"{LETTERS} letters were in the log. One more was handed out, and the process died "
            f"before that one and its snapshot were on disk. After the restart {rows[:3]} came: "
            "only ['letter lost.txt'] is wanted. A snapshot names all letters that are handed out, "
            "and nothing but the snapshot is there after a restart."
        )


def _adds(state: Any, name: str) -> None:
    """`fill` must add this letter, with its name as the token, and no other one."""
    buffer = _filled(state)
    if len(buffer.rows) > 1:
        raise Wrong(
            f"{name} was posted, `fill` added {buffer.rows}: a letter is handed out until it is "
            "acknowledged. Keep its name in `self.handed`; `snapshot` must not change that."
        )
    if buffer.rows != [f"letter {name}"]:
        raise Wrong(f"{name} was posted, and `fill` added {buffer.rows}: its text is wanted, once.")
    if buffer.tokens != [name]:
        raise Wrong("`fill` adds a letter without a token: buffer.add(text, token=name).")


def _still_there(folder: Path, function: str, *names: str) -> None:
    gone = [name for name in names if not (folder / name).exists()]
    if gone:
        raise Wrong(f"`{function}` has deleted {gone[0]}, which is not acknowledged yet: leave it.")


def _restored(box: Any, folder: Path, snapshot: Any) -> Any:
    state = box(context_of(letters=str(folder)))
    try:
        state.restore([snapshot])
    except FileNotFoundError as error:
        raise Wrong(
            f"`restore` raised {told(error)}. A letter that the snapshot names may be gone: it was "
            "acknowledged after that."
        ) from None
    except Exception as error:
        raise Wrong(
            f"`restore` raised {told(error)}. It gets a list with one snapshot for each instance, "
            f"here {[snapshot]}."
        ) from None
    return state


def _does_not_grow(box: Any, folder: Path, acknowledge: Acknowledge, *, restarts: bool) -> None:
    state, lengths = box(context_of(letters=str(folder))), []
    for number in range(200):
        name = f"{'restarted' if restarts else 'more'}-{number:03}.txt"
        _post(folder, name)
        _filled(state)
        snapshot = _snapshot(state)
        lengths.append(len(json.dumps(snapshot)))
        acknowledge(state, [name])
        if restarts:
            state = _restored(box, folder, snapshot)
    if lengths[-1] > 1.5 * lengths[100]:  # a history of some names may stay
        when = ", from restart to restart" if restarts else ""
        raise Wrong(f"The snapshot grows letter by letter{when}: forget what is acknowledged.")


def _post(folder: Path, name: str) -> None:
    (folder / name).write_text(f"letter {name}")


def _filled(state: Any) -> Buffer:
    buffer = Buffer()
    state.fill(buffer)
    return buffer


def _snapshot(state: Any, hint: str = "") -> Any:
    """The snapshot as the builder gives it back."""
    try:
        snapshot = state.snapshot()
    except Exception as error:
        raise Wrong(f"`snapshot` raised {told(error)}.{hint}") from None
    try:
        return as_json(snapshot)
    except (TypeError, ValueError) as error:
        raise Wrong(f"The snapshot must be JSON: return a list of names. ({error})") from None


# ---- Exercise 2: snapshots of another number of instances ----------------------------------------

Restore = Callable[[Any, list[dict[str, int]]], None]


@exercise("def restore(feeds, snapshots)")
def check_09_2(answer: Restore, feeds: type) -> str:
    """Does `answer` go on from snapshots of another number of instances of `feeds`?"""
    for before, after in ((2, 2), (2, 3), (3, 1), (1, 2), (4, 3)):
        change = f"With {before} instance(s) before the restart and {after} after it"
        try:
            _change(answer, feeds, before, after)
        except Wrong as wrong:
            raise Wrong(f"{change}, {wrong}") from None
        except Exception as error:
            raise Wrong(
                f"{change}, it raised {told(error)}. There is one snapshot for each instance of "
                "the last run, and a new sensor is in none."
            ) from None
    return "Each sensor goes on where it was, whoever had it before."


def _change(restore: Restore, feeds: type, before: int, after: int) -> None:
    snapshots: list[dict[str, int]] = []
    for index in range(before):
        state = _start(feeds, index, before)
        for _ in range(3 * index + 2):
            state.fill(Buffer())
        snapshots.append(dict(state.next))
    del snapshots[0]["a"]  # as if sensor a were new
    found = []
    for index in range(after):
        state = _start(feeds, index, after)
        restore(state, as_json(snapshots))
        found.append(state.next)
    known = {sensor: number for snapshot in snapshots for sensor, number in snapshot.items()}
    _compare(found, {"a": 0, **known})


def _start(feeds: type, index: int, count: int) -> Any:
    return feeds(context_of(index, count, until=1000))


def _compare(found: list[Any], wanted: dict[str, int]) -> None:
    if any(not isinstance(each, dict) for each in found):
        raise Wrong("`feeds.next` must stay a dict: sensor by sensor, the next number.")
    times = Counter(sensor for each in found for sensor in each)
    twice, missing = sorted(s for s in times if times[s] > 1), sorted(wanted.keys() - times.keys())
    if twice:
        raise Wrong(f"two instances read sensor {twice[0]}: each keeps to those it was made with.")
    if missing:
        raise Wrong(f"nobody reads sensor {missing[0]}: one that no snapshot knows is new.")
    for sensor, number in sorted({s: n for each in found for s, n in each.items()}.items()):
        if number != wanted[sensor]:
            hint = (
                "another instance may have had it before, so look into *all* snapshots, and change "
                "`feeds.next`."
                if wanted[sensor]
                else "it is in no snapshot, so it is new."
            )
            if number in (wanted[sensor] - 1, wanted[sensor] + 1):
                hint = "a snapshot has the *next* number, not the last one."
            elif wanted[sensor] and number and number in wanted.values():
                hint = "that is another sensor's number; each goes on at its own."
            raise Wrong(
                f"sensor {sensor} must go on at {wanted[sensor]}, yours at {number!r}: {hint}"
            )
