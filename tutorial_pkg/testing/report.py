"""What an examination found: text in a terminal, a table in a notebook."""

from __future__ import annotations

import html
from collections.abc import Iterable
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
        lines = [line for verdict in self.verdicts for line in _lines(verdict)]
        return "\n".join([f"{self.subject}: {self._summary()}", *lines])

    def _repr_html_(self) -> str:
        rows = "".join(_row(verdict) for verdict in self.verdicts)
        title = html.escape(f"{self.subject}: {self._summary()}")
        return f"<table><caption>{title}</caption>{rows}</table>"

    def _summary(self) -> str:
        marks = [verdict.mark for verdict in self.verdicts]
        counts = (f"{marks.count(KEPT)} kept", f"{marks.count(BROKEN)} broken")
        return ", ".join([*counts, f"{marks.count(NOT_CLAIMED)} not claimed"])


def _lines(verdict: Verdict) -> Iterable[str]:
    yield f"  {verdict.mark} {verdict.name}: {verdict.sentence}"
    if verdict.seen:
        yield f"      {verdict.seen}"
    if verdict.remedy:
        yield f"      → {verdict.remedy}"


def _row(verdict: Verdict) -> str:
    told = [html.escape(text) for text in (verdict.seen, verdict.remedy) if text]
    cells = (verdict.mark, f"<code>{verdict.name}</code>", html.escape(verdict.sentence))
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in (*cells, "<br>→ ".join(told))) + "</tr>"
