"""What a check answers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Verdict:
    """What a check found: `passed`, and one line that names the symptom and the next step."""

    passed: bool
    message: str

    def __repr__(self) -> str:
        return f"{'✓' if self.passed else '✗'} {self.message}"


def right(message: str) -> Verdict:
    return Verdict(True, message)


def not_yet(message: str) -> Verdict:
    return Verdict(False, message)
