"""Checks of notebook 11: the conformance kit itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tutorial_pkg.testing import Report
from tutorial_pkg.workbook.checks.verdict import Verdict, exercise, not_yet, right

Examine = Callable[[type], Report]


@exercise
def check_11(answer: Any, base: type, examine: Examine) -> Verdict:
    """Does the class `answer`, which extends `base`, keep every promise that `examine` tries?"""
    if not isinstance(answer, type) or not issubclass(answer, base):
        return not_yet(f"A class is wanted that extends {base.__name__}: class Mended(...): ...")
    report = examine(answer)
    for verdict in report.verdicts:
        if verdict.name in report.broken:
            seen = " ".join(verdict.seen.split())[:300]
            return not_yet(f"{verdict.name}: {seen} → {verdict.remedy}")
    return right(f"{len(report.verdicts)} promises were tried, and all are kept.")
