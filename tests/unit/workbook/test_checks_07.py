"""The checks of notebook 07."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from tests.unit.workbook.answers import changed, look, tried
from workbook.checks import check_07_1, check_07_2


def numbers(folder: Path) -> list[int]:
    return sorted(int(file.name) for file in folder.iterdir() if file.name.isdigit())


def offset(checkpoint: Path, batch: int) -> dict[str, int] | None:
    note = checkpoint / "offsets" / str(batch)
    return json.loads(note.read_text().splitlines()[2]) if note.exists() else None


def repeated(checkpoint: Path) -> tuple | None:
    begun, through = numbers(checkpoint / "offsets"), numbers(checkpoint / "commits")
    last = begun[-1]
    if last in through:
        return None
    return last, offset(checkpoint, last - 1), offset(checkpoint, last)


told_by = partial(changed, repeated)


def names_with_checksums(checkpoint: Path) -> tuple | None:
    last = max(int(file.name) for file in (checkpoint / "offsets").iterdir())
    return last, None, None


def by_age(checkpoint: Path) -> tuple | None:
    newest = max((checkpoint / "offsets").glob("[0-9]*"), key=lambda file: file.stat().st_mtime_ns)
    last = int(newest.name)
    return None if last in numbers(checkpoint / "commits") else (last, None, offset(checkpoint, 0))


def after_the_committed_one(checkpoint: Path) -> tuple | None:
    following = numbers(checkpoint / "commits")[-1] + 1
    begun = offset(checkpoint, following)
    return begun and (following, offset(checkpoint, following - 1), begun)


def by_difference(checkpoint: Path) -> tuple | None:
    begun = {*numbers(checkpoint / "offsets")} - {*numbers(checkpoint / "commits")}
    return next(((b, offset(checkpoint, b - 1), offset(checkpoint, b)) for b in begun), None)


def always_the_only_one(checkpoint: Path) -> tuple | None:
    if len(numbers(checkpoint / "offsets")) == 1:
        return 0, None, offset(checkpoint, 0)
    return repeated(checkpoint)


def from_the_number(checkpoint: Path) -> tuple | None:
    batch, start, _ = repeated(checkpoint) or (None, None, None)
    return batch and (batch, start and {"next": 10 * batch}, {"next": 10 * batch + 10})


def in_the_second_line(checkpoint: Path) -> tuple | None:
    if (found := repeated(checkpoint)) is None:
        return None
    note = (checkpoint / "offsets" / str(found[0])).read_text().splitlines()
    return *found[:2], json.loads(note[1])


test_07_1 = tried(
    check_07_1,
    (repeated, "✓ Begun and not committed"),
    (lambda checkpoint: (found := repeated(checkpoint)) and list(found), "✓ Begun and not"),
    (told_by(("last in through", "False")), "nothing is repeated: return None"),
    (told_by(("begun[-1]", "int(max(map(str, begun)))")), "not 9: compare the names as numbers"),
    (
        told_by(("last in through", "str(last) == max(map(str, through), default='')")),
        "the last commit is 11, not 9: compare",
    ),
    (names_with_checksums, "a hidden file such as .2.crc"),
    (told_by(("last in through", "last not in through")), "nothing is repeated: return None"),
    (lambda checkpoint: None, "offsets/2 has no commits/2"),
    (told_by(("last in through", "len(begun) == len(through)")), "not how many files there are"),
    (lambda checkpoint: repeated(checkpoint) and repeated(checkpoint)[0], "yours is 2"),
    (lambda checkpoint: repeated(checkpoint) or (), "nothing is repeated: return None"),
    (told_by(("last - 1)", "last - 1) or {'next': 0}")), "its start is None"),
    (by_age, "offsets/2 has no commits/2"),
    (after_the_committed_one, "raised IndexError: list index out of range. Batch 0 has no"),
    (lambda checkpoint: {}["next"], "raised KeyError"),
    (by_difference, "✓ Begun and not committed"),
    (always_the_only_one, "must be None, yours is (0, None, "),
    (
        lambda checkpoint: (
            (found := repeated(checkpoint))
            and (None if [*(checkpoint / "commits").glob(f"*{found[0]}*")] else found)
        ),
        "only a hidden .2.tmp",
    ),
    (in_the_second_line, "An offset is the last line of a note, as a dict: json.loads"),
    (from_the_number, "must be (2, {'next': 20, 'batch': 1}, {'next': 30, 'batch': 2}), yours is"),
)


@pytest.mark.parametrize("place", [0, -1])
@pytest.mark.parametrize("step", [1, -1])
def test_07_1_a_place_in_a_listing_says_nothing(
    monkeypatch: pytest.MonkeyPatch, place: int, step: int
) -> None:
    """Some file systems list the oldest file first, and some the newest."""
    made: list[Path] = []
    write_text = Path.write_text

    def noticed(file: Path, text: str) -> int:
        made.append(file)
        return write_text(file, text)

    def by_place(checkpoint: Path) -> tuple | None:
        listed = [file for file in made[::step] if file.parent == checkpoint / "offsets"]
        last = int(listed[place].name)
        if last in numbers(checkpoint / "commits"):
            return None
        return last, offset(checkpoint, last - 1), offset(checkpoint, last)

    monkeypatch.setattr(Path, "write_text", noticed)
    look(check_07_1(by_place), "offsets/2 has no commits/2")


def restore(saved: dict[str, int], ports: list[int]) -> dict[str, int]:
    return {**{str(port): 0 for port in ports}, **saved}


def set_defaults(saved: dict[str, int], ports: list[int]) -> dict[str, int]:
    for port in ports:
        saved.setdefault(str(port), 0)
    return saved


class Restored(dict):
    def __init__(self, saved: dict[str, int], ports: list[int]) -> None:
        super().__init__(dict.fromkeys(map(str, ports), 0), **saved)


def goes_by_how_many(saved: dict[str, int], ports: list[int]) -> dict[str, int]:
    """As if a port could only come when none goes."""
    if len(ports) < len(saved):
        return saved
    return {str(port): saved.get(str(port), 0) for port in ports}


def without_what_is_at_0(saved: dict[str, int], ports: list[int]) -> dict[str, int]:
    return restore({port: position for port, position in saved.items() if position}, ports)


test_07_2 = tried(
    check_07_2,
    (restore, "✓ Old ports"),
    (lambda saved, ports: None, "not None: is there a `return`?"),
    (lambda saved, ports: json.dumps(saved), "must return a dict such as saved, not str"),
    (lambda saved, ports: saved[ports], "raised TypeError"),
    (lambda saved, ports: {**dict.fromkeys(ports, 0), **saved}, "A key in JSON is a string"),
    (lambda saved, ports: {str(port): 0 for port in ports}, "What is saved must win over 0"),
    (lambda saved, ports: {**saved, **{str(port): 0 for port in ports}}, "must win over 0"),
    (lambda saved, ports: {str(p): saved.get(str(p), 0) for p in ports}, "Port 11001 is gone"),
    (lambda saved, ports: saved, "A new port starts at 0"),
    (set_defaults, "✓ Old ports"),
    (Restored, "✓ Old ports"),
    (lambda saved, ports: {**saved, "11002": 0} if 11002 in ports else saved, "are new: both"),
    (lambda saved, ports: {**saved, **{str(new): 0 for new in ports[len(saved) :]}}, "are new"),
    (lambda saved, ports: {str(max(ports)): 0, **saved}, "are new"),
    (
        lambda saved, ports: {
            **{str(new): 0 for new in range(min(ports), max(ports) + 1)},
            **saved,
        },
        "yours is {'10999': 0, '11000': 5120, '11001': 880, '11002': 0, '11003': 0}",
    ),
    (
        lambda saved, ports: {
            **saved,
            **{str(new): 0 for new in ports if new > max(map(int, saved))},
        },
        "11003 and 10999 are new: both start",
    ),
    (
        lambda saved, ports: restore(saved if {*saved} & {*map(str, ports)} else {}, ports),
        "All old ports are gone, and their logs still hold lines",
    ),
    (goes_by_how_many, "11000 is gone"),
    (lambda saved, ports: saved and restore(saved, ports), "Nothing is saved, so 11000 is new"),
    (without_what_is_at_0, "11000 is gone and at 0"),
)
