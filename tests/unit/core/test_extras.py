"""What is missing without the extras is named, or done in another way."""

from __future__ import annotations

import sys

import pytest

from tutorial_pkg.connectors.network_lines import sender
from tutorial_pkg.core import lines
from tutorial_pkg.core.extras import extra


def test_error_names_the_extra() -> None:
    text = "^this needs the package no_such_package: pip install 'tutorial_pkg\\[metrics\\]'$"
    with pytest.raises(ImportError, match=text), extra("metrics"):
        import no_such_package  # noqa: F401


def test_newlines_are_counted_without_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    text = memoryview(b"a\n\n" * 7 + b"b")
    assert lines.count_newlines(text) == 14
    monkeypatch.setattr(lines, "numpy", None)
    assert lines.count_newlines(text) == 14


def test_lines_are_sent_without_tqdm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tqdm", None)
    with sender.progress_bar(total=3) as bar:
        bar.update(3)
