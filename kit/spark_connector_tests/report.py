"""The report on an examination: text in a terminal, a table in a notebook."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass, replace

KEPT, BROKEN, NOT_CLAIMED = "✓", "✗", "–"
# Where rows are missing, the first broken one of these is the cause, or else the first one tried.
CAUSES = ("late_rows", "every_row_once", "large_batch", "restart", "two_queries")


@dataclass(frozen=True)
class Verdict:
    """The result for one promise.

    `mark` is ✓ kept, ✗ broken, or – not claimed or not tried. `seen` is what the kit saw, `remedy`
    what to do. `because` names the broken promise with the same cause: fix that one first.
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
            why = "rows are missing here, too" if self.rows_missing else "the same cause"
            return f"  {self.mark} {self.name}: {why}; fix `{self.because}` first"
        below = (self.seen, f"→ {self.remedy}" if self.remedy else "")
        lines = [f"      {text}" for text in below if text]
        return "\n".join([f"  {self.mark} {self.name}: {self.sentence}", *lines])


def ranked(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Name one cause where rows are missing.

    A lost row breaks many promises, whose remedies would send the reader to the wrong places.
    """
    missing = [verdict for verdict in verdicts if verdict.rows_missing and not verdict.because]
    names = [verdict.name for verdict in missing]
    cause = next((name for name in [*CAUSES, *names] if name in names), "")
    return [
        replace(verdict, because=cause) if verdict in missing and verdict.name != cause else verdict
        for verdict in verdicts
    ]


@dataclass(frozen=True)
class Report:
    """All verdicts on `subject`, and how many seconds they took.

    Broken promises come first, each with those of the same cause. Fix the first; examine again.
    """

    subject: str
    verdicts: list[Verdict]
    seconds: float

    @property
    def broken(self) -> list[str]:
        """The names of the broken promises, one for each cause."""
        return [verdict.name for verdict in self._in_order() if verdict.mark == BROKEN]

    def __str__(self) -> str:
        lines = [self.summary()]
        for verdict in self._in_order():
            lines += [str(verdict), *(f"      {text}" for text in self._following(verdict))]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = "".join(self._row(verdict) for verdict in self._in_order())
        title = html.escape(self.summary())
        return f"<table><caption>{title}</caption>{rows}</table>"

    def summary(self) -> str:
        """The report in one line."""
        marks = [verdict.mark for verdict in self._in_order()]
        following = len(self.verdicts) - len(marks)
        more = f" (and {following} with it)" if following else ""
        counts = [f"{marks.count(KEPT)} kept", f"{marks.count(BROKEN)} broken{more}"]
        counts.append(f"{marks.count(NOT_CLAIMED)} not claimed")
        return f"{self.subject}: {', '.join(counts)}"

    def _in_order(self) -> list[Verdict]:
        """Return one verdict for each cause: what explains missing rows, other ✗, and the rest."""
        shown = [verdict for verdict in self.verdicts if not verdict.because]
        explains = [v.name for v in shown if v.rows_missing and v.name in CAUSES]
        return sorted(shown, key=lambda v: (v.mark != BROKEN, v.name not in explains))

    def _following(self, cause: Verdict) -> list[str]:
        """Return lines with the promises that are broken for the same cause."""
        following = [verdict for verdict in self.verdicts if verdict.because == cause.name]
        missing = ", ".join(verdict.name for verdict in following if verdict.rows_missing)
        others = ", ".join(verdict.name for verdict in following if not verdict.rows_missing)
        lines = [f"Rows are missing here, too: {missing}"] if missing else []
        return [*lines, f"with it: {others}"] if others else lines

    def _row(self, verdict: Verdict) -> str:
        texts = [html.escape(text) for text in (verdict.seen, verdict.remedy) if text]
        cells = [verdict.mark, f"<code>{verdict.name}</code>", html.escape(verdict.sentence)]
        cells.append("<br>".join(["<br>→ ".join(texts), *self._following(verdict)]))
        return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"
