"""A walk through the pages of a cursor source: whose turn it is, and when each is asked again."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from tutorial_pkg.builder.rows import RowPacker
from tutorial_pkg.builder.splits import Page, SplitCalls


class Walk:
    """From page to page; the split that has waited longest comes first.

    `positions` are those of the next unread pages. A split without anything new is asked again
    `pause` seconds later; with an infinite pause a walk ends when each has been at its end once.
    """

    def __init__(
        self,
        calls: SplitCalls,
        packer: RowPacker,
        pause: float,
        mine: Callable[[str], bool] = lambda split: True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.positions: dict[str, Any] = {}
        self._calls, self._packer, self._pause = calls, packer, pause
        self._mine, self._clock = mine, clock
        self._due: dict[str, float] = {}  # of the splits that there are; who asked last is last
        self._look_at = 0.0

    def go_to(self, positions: dict[str, Any]) -> None:
        """Go on where an earlier walk was; other walks have the splits that are not mine."""
        self.positions |= {split: at for split, at in positions.items() if self._mine(split)}

    def next_page(self) -> Page | None:
        """The next page of a split, perhaps without rows; None while nobody's time has come."""
        if self._clock() >= self._look_at:
            self.look()
        now = self._clock()
        split = min(self._due, key=self._due.__getitem__, default=None)
        if split is None or self._due[split] > now:
            return None
        page = self._calls.page(split, self.positions[split], self._packer)
        self.positions[split] = page.end
        del self._due[split]
        self._due[split] = now if page.end != page.start else now + self._pause
        return page

    def close(self) -> None:
        self._calls.close()

    def look(self) -> None:
        """Which splits exist now; one that has vanished keeps its position."""
        now = self._clock()
        begins = self._calls.begins(self.positions)
        there = {split: first for split, first in begins.items() if self._mine(split)}
        self.positions = there | self.positions
        self._due = {split: self._due.get(split, now) for split in there}
        self._look_at = now + self._pause
