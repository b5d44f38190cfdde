"""The checks of notebook 09."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from tests.unit.workbook.answers import changed, tried
from workbook.checks import check_09_1, check_09_2


class Mailbox:
    def __init__(self, context: Any) -> None:
        self.folder, self.handed = Path(context.options.letters), set()

    def fill(self, buffer: Any) -> None:
        for name in sorted({letter.name for letter in self.folder.glob("*.txt")} - self.handed):
            buffer.add((self.folder / name).read_text(), token=name)
            self.handed.add(name)


def acknowledge(mailbox: Any, names: list[str]) -> None:
    for name in names:
        (mailbox.folder / name).unlink(missing_ok=True)
    mailbox.handed.difference_update(names)


class Once(Mailbox):
    def fill(self, buffer: Any) -> None:
        for name in sorted({letter.name for letter in self.folder.glob("*.txt")} - self.handed):
            buffer.add((self.folder / name).read_text(), token=name)
            self.handed.add(name)

    def snapshot(self) -> Any:
        return sorted(self.handed)

    def restore(self, snapshots: list[Any]) -> None:
        for handed in snapshots:
            acknowledge(self, handed)


once = partial(changed, Once)


class LastTen(Once):
    """It keeps some names longer than it must, but not all."""

    def snapshot(self) -> Any:
        new = self.handed.difference(getattr(self, "last", []))
        self.last = ([*getattr(self, "last", []), *new])[-10:]
        return sorted(self.handed.union(self.last))


class DeletesInFill(Once):
    """`restore` only remembers: the next `fill` deletes."""

    def fill(self, buffer: Any) -> None:
        acknowledge(self, vars(self).pop("logged", []))
        super().fill(buffer)

    def snapshot(self) -> Any:
        return {"handed": [*self.handed, *vars(self).get("logged", [])]}

    def restore(self, snapshots: list[Any]) -> None:
        self.logged = [name for snapshot in snapshots for name in snapshot["handed"]]


class InAFile(Once):
    """Written before the frame is on disk."""

    def snapshot(self) -> Any:
        self.folder.with_suffix(".handed").write_text(" ".join(self.handed))

    def restore(self, snapshots: list[Any]) -> None:
        acknowledge(self, self.folder.with_suffix(".handed").read_text().split())
        self.folder.with_suffix(".handed").unlink()


class OneBehind(Once):
    def snapshot(self) -> Any:
        before, self.now = vars(self).get("now", []), sorted(self.handed)
        return before


class UntilOneIsGone(Once):
    def restore(self, snapshots: list[Any]) -> None:
        with suppress(FileNotFoundError):
            for name in snapshots[0]:
                (self.folder / name).unlink()


class OnlySnapshot(Mailbox):
    def snapshot(self) -> Any:
        return sorted(self.handed)


NAMES, ADDED = "sorted(self.handed)", "self.handed.add(name)"
FORGETS = (
    "return sorted(self.handed)",
    "names = sorted(self.handed); self.handed.clear(); return names",
)
AS_A_TEXT = ((NAMES, "','.join(self.handed)"), ("(self, handed)", "(self, handed.split(','))"))
ACKNOWLEDGED = "acknowledge(self, handed)"
ALL_THERE = "all((self.folder / name).exists() for name in handed)"
DELETE_ALL = "[letter.unlink() for letter in self.folder.iterdir()]"
LISTING = "[letter.name for letter in self.folder.iterdir()]"
DELETE = "(self.folder / name).unlink(missing_ok=True)"
FORGOTTEN = f"self.handed.update(handed); [{DELETE} for name in handed]"
GROWS = ((ADDED, f"{ADDED}; vars(self).setdefault('ever', []).append(name)"),
         (NAMES, "[*vars(self).get('ever', [])]"))  # fmt: skip
OF_THE_LAST_FILL = (("for name in sorted", "self.new = []\n        for name in sorted"),
                    (ADDED, f"{ADDED}; self.new.append(name)"),
                    (NAMES, "vars(self).get('new', [])"))  # fmt: skip
EARLIER = "[file.name for file in self.folder.iterdir() if file.name <= handed]"
LAST_NAME = ((NAMES, "max(self.handed, default='')"), ("(self, handed)", f"(self, {EARLIER})"))
test_09_1 = tried(
    check_09_1,
    (Once, "✓ No letter comes twice"),
    (LastTen, "✓ No letter comes twice"),
    (dict, "A class is wanted: class Once(Mailbox)"),
    (OnlySnapshot, "has no method `restore`"),
    (once(FORGETS), "a letter is handed out until it is acknowledged"),
    (once((NAMES, "self.handed")), "Object of type set is not JSON serializable"),
    (once((NAMES, "[self.folder / name for name in self.handed]")), "Object of type PosixPath is"),
    (DeletesInFill, "✓ No letter comes twice"),
    (once(*AS_A_TEXT), "`restore` raised IsADirectoryError"),
    (once(*AS_A_TEXT, ("handed.split(',')", "filter(None, handed.split(','))")), "✓ No letter"),
    (once((NAMES, f"{NAMES}[-100:]")), "120 letters were in the log. One more was handed out"),
    (OneBehind, "A snapshot names all letters that are handed out"),
    (InAFile, "After the restart [] came"),
    (
        once((ACKNOWLEDGED, "[(self.folder / name).unlink() for name in handed]")),
        "A letter that the snapshot names may be gone",
    ),
    (UntilOneIsGone, "Letters 0 and 2 were acknowledged, letter 1 was not"),
    (
        once((ACKNOWLEDGED, f"{ALL_THERE} and acknowledge(self, handed)")),
        "after a restart ['letter half-1.txt'] came",
    ),
    (
        once((ACKNOWLEDGED, "acknowledge(self, [handed[-1]] if handed else [])")),
        "it added ['letter 0",
    ),
    (once((ACKNOWLEDGED, "pass")), "must know from the snapshot"),
    (once((ACKNOWLEDGED, "self.handed.update(handed)")), "1.txt, 2.txt would stay for ever"),
    (once((ACKNOWLEDGED, DELETE_ALL)), "`restore` deletes only what the snapshot"),
    (once(*GROWS), "grows letter by letter: forget"),
    (once((ACKNOWLEDGED, FORGOTTEN)), "from restart to restart"),
    (once(*OF_THE_LAST_FILL), "must know from the snapshot"),
    (once(("self.handed)", "self.new)")), "before the first `fill`, too"),
    (
        once((ADDED, f"{ADDED}; {DELETE}")),
        "`fill` has deleted 1.txt, which is not",
    ),
    (once((", token=name", "")), "`fill` adds a letter without a token"),
    (once(*LAST_NAME), "Letter 0 came after `fill` and before `snapshot`"),
    (once(("return sorted", f"{DELETE_ALL}; return sorted")), "`snapshot` has deleted 1.txt"),
    (once((NAMES, LISTING)), "Letter 0 came after `fill` and before `snapshot`"),
    (once((ACKNOWLEDGED, f"{ACKNOWLEDGED}; {DELETE_ALL}")), "`restore` deletes only what the"),
    (once((NAMES, "[sorted(self.handed)]")), "`restore` raised TypeError"),
    (once((ACKNOWLEDGED, "acknowledge(self, snapshots)")), "`restore` raised TypeError"),
    more=(Mailbox, acknowledge),
)


class Feeds:
    def __init__(self, context: Any) -> None:
        self.until = context.options.until
        self.next = dict.fromkeys("abcdef"[context.index :: context.count], 0)
        self.index = context.index

    def fill(self, buffer: Any) -> None:
        for sensor, number in self.next.items():
            if number < self.until:
                buffer.add((sensor, number))
                self.next[sensor] += 1


def restore(feeds: Feeds, snapshots: list[dict[str, int]]) -> None:
    known = {sensor: next for snapshot in snapshots for sensor, next in snapshot.items()}
    feeds.next = {sensor: known.get(sensor, 0) for sensor in feeds.next}


def in_place(feeds: Feeds, snapshots: list[dict[str, int]]) -> Feeds:
    for snapshot in snapshots:
        for sensor in feeds.next.keys() & snapshot.keys():
            feeds.next[sensor] = snapshot[sensor]
    return feeds


class Restore:
    def __call__(self, feeds: Feeds, snapshots: list[dict[str, int]]) -> None:
        for sensor in feeds.next:
            feeds.next[sensor] = max(snapshot.get(sensor, 0) for snapshot in snapshots)


restoring = partial(changed, restore)


GO_ON = "{sensor: known.get(sensor, 0) for sensor in feeds.next}"
test_09_2 = tried(
    check_09_2,
    (restore, "✓ Each sensor goes on where it was"),
    (lambda feeds, snapshots: None, "must go on at"),
    (restoring(("feeds.next =", "return")), "change `feeds.next`"),
    (restoring(("known.get(sensor, 0)", "known.get(sensor, -1) + 1")), "has the *next* number"),
    (restoring(("known.get(sensor, 0)", "max(known.get(sensor, 0) - 1, 0)")), "the *next* number"),
    (restoring(("known.get(sensor, 0)", "str(known.get(sensor, 0))")), "at 0, yours at '0'"),
    (restoring(("in feeds.next}", "in known}")), "two instances read sensor"),
    (restoring((GO_ON, "snapshots[feeds.index]")), "2 after it, nobody reads sensor a"),
    (restoring(("in snapshots", "in snapshots[:1]")), "another instance may have had it before"),
    (restoring(("in feeds.next}", "in feeds.next if sensor in known}")), "nobody reads sensor a"),
    (restoring(("sensor, 0)", "sensor, min(known.values()))")), "in no snapshot, so it is new"),
    (restoring(("feeds.next = {", "feeds.next = snapshots or {")), "must stay a dict"),
    (lambda feeds, snapshots: snapshots[9], "raised IndexError"),
    (in_place, "✓ Each sensor goes on where it was"),
    (Restore(), "✓ Each sensor goes on where it was"),
    (restoring(("known.get(sensor, 0)", "known[sensor]")), "and a new sensor is in none"),
    (
        restoring(("known.get(sensor, 0)", "min(known.values()) if sensor in known else 0")),
        "sensor b must go on at 5, yours at 2: that is another sensor's number",
    ),
    (
        restoring(
            (GO_ON, "{sensor: min(s.get(sensor, 0) for s in snapshots) for sensor in feeds.next}")
        ),
        "another instance may have had it before",
    ),
    more=(Feeds,),
)
