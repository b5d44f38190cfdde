"""The checks of notebook 09."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.unit.workbook.answers import changed, tried
from tutorial_pkg.workbook.checks import check_09_1, check_09_2


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
    def snapshot(self) -> Any:
        return sorted(self.handed)

    def restore(self, snapshots: list[Any]) -> None:
        for handed in snapshots:
            acknowledge(self, handed)


def once(*edits: tuple[str, str]) -> Any:
    return changed(Once, *edits)


class Grows(Once):
    def __init__(self, context: Any) -> None:
        super().__init__(context)
        self.ever: set[str] = set()

    def fill(self, buffer: Any) -> None:
        super().fill(buffer)
        self.ever |= self.handed

    def snapshot(self) -> Any:
        return sorted(self.ever)


class GrowsFromRestartToRestart(Once):
    """What it restored has no token now, so nobody ever takes it out again."""

    def restore(self, snapshots: list[Any]) -> None:
        for names in snapshots:
            self.handed.update(names)
            for name in names:
                (self.folder / name).unlink(missing_ok=True)


class OnlyOfTheLastFill(Once):
    """It forgets what earlier fills added and nobody has acknowledged."""

    def __init__(self, context: Any) -> None:
        super().__init__(context)
        self.new: list[str] = []

    def fill(self, buffer: Any) -> None:
        old = set(self.handed)
        super().fill(buffer)
        self.new = sorted(self.handed - old)

    def snapshot(self) -> Any:
        return self.new


class LastTen(OnlyOfTheLastFill):
    """It keeps some names longer than it must, but not all."""

    def snapshot(self) -> Any:
        self.last = ([*getattr(self, "last", []), *self.new])[-10:]
        return sorted(self.handed.union(self.last))


class LastName(Once):
    """It takes names for numbers: a letter may come later and sort before."""

    def snapshot(self) -> Any:
        return max(self.handed, default="")

    def restore(self, snapshots: list[Any]) -> None:
        names = [file.name for file in self.folder.iterdir()]
        acknowledge(self, [name for name in names if name <= snapshots[0]])


class WithoutToken(Once):
    def fill(self, buffer: Any) -> None:
        super().fill(type("", (), {"add": lambda self, row, token: buffer.add(row)})())


class DeletesAtOnce(Once):
    def fill(self, buffer: Any) -> None:
        super().fill(buffer)
        acknowledge(self, sorted(self.handed))


class OnlySnapshot(Mailbox):
    def snapshot(self) -> Any:
        return sorted(self.handed)


ACKNOWLEDGED = "acknowledge(self, handed)"
DELETE_ALL = "[letter.unlink() for letter in self.folder.iterdir()]"
LISTING = "[letter.name for letter in self.folder.iterdir()]"
test_09_1 = tried(
    check_09_1,
    (Once, "✓ In the log and named in the snapshot"),
    (LastTen, "✓ In the log"),
    (None, "No answer yet"),
    (Mailbox(type("C", (), {"options": type("O", (), {"letters": "."})})), "A class is wanted"),
    (dict, "A class is wanted: class Once(Mailbox)"),
    (OnlySnapshot, "has no method `restore`"),
    (once(("sorted(self.handed)", "self.handed")), "is a set, and JSON has none"),
    (once((ACKNOWLEDGED, "pass")), "must know from the snapshot"),
    (once((ACKNOWLEDGED, "self.handed.update(handed)")), "1.txt, 2.txt stays for ever"),
    (once((ACKNOWLEDGED, DELETE_ALL)), "`restore` deletes only what the snapshot"),
    (Grows, "grows letter by letter: forget"),
    (GrowsFromRestartToRestart, "from restart to restart"),
    (OnlyOfTheLastFill, "must know from the snapshot"),
    (once(("self.handed)", "self.new)")), "before the first `fill`, too"),
    (DeletesAtOnce, "`fill` has deleted 1.txt, which is not acknowledged yet"),
    (once(("return sorted", f"{DELETE_ALL}; return sorted")), "`snapshot` has deleted 1.txt"),
    (once(("sorted(self.handed)", LISTING)), "Letter 0 came after `fill` and before `snapshot`"),
    (once((ACKNOWLEDGED, f"{ACKNOWLEDGED}; {DELETE_ALL}")), "`restore` deletes only what the"),
    (LastName, "Letter 0 came after `fill` and before `snapshot`"),
    (WithoutToken, "`fill` adds a letter without a token"),
    (once(("sorted(self.handed)", "[sorted(self.handed)]")), "`restore` raised TypeError"),
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


def restoring(*edits: tuple[str, str]) -> Any:
    return changed(restore, *edits)


GO_ON = "{sensor: known.get(sensor, 0) for sensor in feeds.next}"
test_09_2 = tried(
    check_09_2,
    (restore, "✓ Each sensor goes on where it was"),
    ({}, "A function is wanted"),
    (lambda feeds, snapshots: None, "must go on at"),
    (restoring(("in feeds.next}", "in known}")), "two instances read sensor"),
    (restoring((GO_ON, "snapshots[feeds.index]")), "2 after it, nobody reads sensor a"),
    (restoring(("in snapshots", "in snapshots[:1]")), "another instance may have had it before"),
    (restoring(("in feeds.next}", "in feeds.next if sensor in known}")), "nobody reads sensor a"),
    (restoring(("sensor, 0)", "sensor, min(known.values()))")), "in no snapshot, so it is new"),
    (restoring(("feeds.next = {", "feeds.next = snapshots or {")), "must stay a dict"),
    (lambda feeds, snapshots: snapshots[9], "raised IndexError"),
    more=(Feeds,),
)
