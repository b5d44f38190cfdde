"""What a call did, in a line that gives nothing away before it is made."""

from __future__ import annotations

import sys

import pytest

from workbook.lesson import MOST_CHARACTERS, outcome


def fails(text: str) -> None:
    print("a page of traces", file=sys.stderr)
    raise ValueError(text)


def test_what_a_call_did(capsys: pytest.CaptureFixture[str]) -> None:
    assert outcome(lambda: 3) == "it works"
    assert outcome(lambda: fails("too many. Please do less")) == "ValueError: too many"
    assert len(outcome(lambda: fails("x" * 1000))) == MOST_CHARACTERS
    assert capsys.readouterr().err == ""


def test_of_a_page_of_traces_it_shows_the_line_that_matters() -> None:
    page = (
        "Failed.\nTraceback (most recent call last):\n  File 'x', line 1\nOSError: the disk is full"
    )
    assert outcome(lambda: fails(page)) == "OSError: the disk is full"
