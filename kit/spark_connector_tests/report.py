"""The report on an examination: text in a terminal, a table in a notebook."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass, replace

KEPT, BROKEN, NOT_CLAIMED = "✓", "✗", "–"
# Where rows are missing, the remedies of these promises name the cause; others only mention it.
CAUSES = {"late_rows", "from_the_first_row", "restart", "unfinished_row"}


@dataclass(frozen=True)
class Verdict:
    """The result for one promise.

    `mark` is ✓ kept, ✗ broken, or – not claimed or not tried. `seen` is what
    the kit saw, and `remedy` what to do. `because` names the broken promise with the same cause:
    fix that one first.
    """

    name: str
    sentence: str
    mark: str
    seen: str = ""
    remedy: str = ""
    because: str = ""
    rows_missing: bool = False

    def __str__(self) -> str:
        if self.because:
            return f"  {self.mark} {self.name}: for the same reason as {self.because}"
        below = (self.seen, f"→ {self.remedy}" if self.remedy else "")
        lines = [f"      {text}" for text in below if text]
        return "\n".join([f"  {self.mark} {self.name}: {self.sentence}", *lines])


def ranked(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Keep the remedy for missing rows only where it names a cause, or else where it comes first.

    A lost row breaks many promises. Their remedies would send the reader to the wrong places.
    """
    missing = [verdict for verdict in verdicts if verdict.rows_missing and not verdict.because]
    causes = [verdict for verdict in missing if verdict.name in CAUSES] or missing[:1]
    return [
        replace(verdict, remedy=f"Rows are missing here, too. Fix `{causes[0].name}` first.")
        if verdict in missing and verdict not in causes
        else verdict
        for verdict in verdicts
    ]


@dataclass(frozen=True)
class Report:
    """All verdicts on `subject`, and how many seconds they took.

    The most likely causes come first, then other broken promises. Promises with the same error, or
    that hung as well, are listed below the first of them. Fix the first one, and examine again.
    """

    subject: str
    verdicts: list[Verdict]
    seconds: float

    @property
    def broken(self) -> list[str]:
        """The names of the broken promises, one for each cause."""
        return [verdict.name for verdict in self.verdicts if _is_root(verdict)]

    def __str__(self) -> str:
        lines = [self.summary()]
        for verdict in self._in_order():
            lines.append(str(verdict))
            if names := self._following(verdict):
                lines.append(f"      with it: {names}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = "".join(self._row(verdict) for verdict in self._in_order())
        title = html.escape(self.summary())
        return f"<table><caption>{title}</caption>{rows}</table>"

    def summary(self) -> str:
        """The report in one line."""
        marks = [verdict.mark for verdict in self.verdicts if not verdict.because]
        following = len(self.verdicts) - len(marks)
        more = f" (and {following} with it)" if following else ""
        counts = [f"{marks.count(KEPT)} kept", f"{marks.count(BROKEN)} broken{more}"]
        counts.append(f"{marks.count(NOT_CLAIMED)} not claimed")
        return f"{self.subject}: {', '.join(counts)}"

    def first(self) -> str:
        """The broken promise to fix first; empty if none is broken."""
        return next((verdict.name for verdict in self._in_order() if _is_root(verdict)), "")

    def _in_order(self) -> list[Verdict]:
        shown = [verdict for verdict in self.verdicts if not verdict.because]
        return sorted(shown, key=_rank)

    def _following(self, root: Verdict) -> str:
        return ", ".join(v.name for v in self.verdicts if v.because and v.because == root.name)

    def _row(self, verdict: Verdict) -> str:
        texts = [html.escape(text) for text in (verdict.seen, verdict.remedy) if text]
        cells = [verdict.mark, f"<code>{verdict.name}</code>", html.escape(verdict.sentence)]
        cells.append("<br>→ ".join(texts))
        if names := self._following(verdict):
            cells[-1] += f"<br>with it: {names}"
        return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"


def _is_root(verdict: Verdict) -> bool:
    return verdict.mark == BROKEN and not verdict.because


def _rank(verdict: Verdict) -> int:
    if verdict.mark != BROKEN:
        return 2
    return 0 if verdict.rows_missing and verdict.name in CAUSES else 1
