"""What an examination found: text in a terminal, a table in a notebook."""

from __future__ import annotations

import html
from dataclasses import dataclass

KEPT, BROKEN, ADVICE, NOT_CLAIMED = "✓", "✗", "!", "–"


@dataclass(frozen=True)
class Verdict:
    """One promise: `mark` is ✓ kept, ✗ broken, ! advice that is not followed, or – not tried.

    `seen` says why it is not ✓, `remedy` what to do. `because` names the broken promise that
    explains this one: fix that one first.
    """

    name: str
    sentence: str
    mark: str
    seen: str = ""
    remedy: str = ""
    because: str = ""

    def __str__(self) -> str:
        if self.because:
            return f"  {self.mark} {self.name}: for the same reason as {self.because}"
        told = (self.seen, f"→ {self.remedy}" if self.remedy else "")
        below = [f"      {text}" for text in told if text]
        return "\n".join([f"  {self.mark} {self.name}: {self.sentence}", *below])


@dataclass(frozen=True)
class Report:
    """All verdicts on `subject`, which took `seconds`.

    Printed, broken promises come first, each followed by those that ended with the same error, or
    hung, too. Other consequences of a mistake are listed separately: fix one, usually the first,
    and try again.
    """

    subject: str
    verdicts: list[Verdict]
    seconds: float

    @property
    def broken(self) -> list[str]:
        """The names of the promises that are broken, without those that ended like another one."""
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
        """The report in a line."""
        marks = [verdict.mark for verdict in self.verdicts if not verdict.because]
        following = len(self.verdicts) - len(marks)
        more = f" (and {following} with it)" if following else ""
        counts = [f"{marks.count(KEPT)} kept", f"{marks.count(BROKEN)} broken{more}"]
        counts.append(f"{marks.count(NOT_CLAIMED)} not claimed")
        counts += [f"{marks.count(ADVICE)} advised"] if ADVICE in marks else []
        return f"{self.subject}: {', '.join(counts)}"

    def _in_order(self) -> list[Verdict]:
        told = [verdict for verdict in self.verdicts if not verdict.because]
        return sorted(told, key=lambda verdict: verdict.mark != BROKEN)

    def _following(self, root: Verdict) -> str:
        return ", ".join(v.name for v in self.verdicts if v.because and v.because == root.name)

    def _row(self, verdict: Verdict) -> str:
        told = [html.escape(text) for text in (verdict.seen, verdict.remedy) if text]
        cells = [verdict.mark, f"<code>{verdict.name}</code>", html.escape(verdict.sentence)]
        cells.append("<br>→ ".join(told))
        if names := self._following(verdict):
            cells[-1] += f"<br>with it: {names}"
        return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"


def _is_root(verdict: Verdict) -> bool:
    return verdict.mark == BROKEN and not verdict.because
