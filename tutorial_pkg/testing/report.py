"""What an examination found: text in a terminal, a table in a notebook."""

from __future__ import annotations

import html
from dataclasses import dataclass

KEPT, BROKEN, NOT_CLAIMED = "✓", "✗", "–"


@dataclass(frozen=True)
class Verdict:
    """One promise: `mark` is ✓, ✗ or –; `seen` says why it is not ✓, `remedy` what to do."""

    name: str
    sentence: str
    mark: str
    seen: str = ""
    remedy: str = ""

    def __str__(self) -> str:
        told = (self.seen, f"→ {self.remedy}" if self.remedy else "")
        below = [f"      {text}" for text in told if text]
        return "\n".join([f"  {self.mark} {self.name}: {self.sentence}", *below])


@dataclass(frozen=True)
class Report:
    """All verdicts on `subject`, which took `seconds`."""

    subject: str
    verdicts: list[Verdict]
    seconds: float

    @property
    def broken(self) -> list[str]:
        """The names of the promises that are broken."""
        return [verdict.name for verdict in self.verdicts if verdict.mark == BROKEN]

    def __str__(self) -> str:
        return "\n".join([self.summary(), *map(str, self.verdicts)])

    def _repr_html_(self) -> str:
        rows = "".join(_row(verdict) for verdict in self.verdicts)
        title = html.escape(self.summary())
        return f"<table><caption>{title}</caption>{rows}</table>"

    def summary(self) -> str:
        """The report in a line."""
        marks = [verdict.mark for verdict in self.verdicts]
        counts = (f"{marks.count(KEPT)} kept", f"{marks.count(BROKEN)} broken")
        return f"{self.subject}: {', '.join(counts)}, {marks.count(NOT_CLAIMED)} not claimed"


def _row(verdict: Verdict) -> str:
    told = [html.escape(text) for text in (verdict.seen, verdict.remedy) if text]
    cells = (verdict.mark, f"<code>{verdict.name}</code>", html.escape(verdict.sentence))
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in (*cells, "<br>→ ".join(told))) + "</tr>"
