"""What is missing without the extras is named, or done in another way."""

from __future__ import annotations

import os
import sys

import pytest

from tutorial_pkg.connectors.cpu_log import query_owner
from tutorial_pkg.connectors.cpu_log.query_owner import Owner, is_job_that_ended, this_owner
from tutorial_pkg.connectors.network_lines import sender
from tutorial_pkg.core import lines
from tutorial_pkg.core.extras import extra


def test_an_error_names_the_extra() -> None:
    text = "^this needs the package no_such_package: pip install 'tutorial_pkg\\[metrics\\]'$"
    with pytest.raises(ImportError, match=text), extra("metrics"):
        import no_such_package  # noqa: F401


def test_newlines_are_counted_without_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    text = memoryview(b"a\n\n" * 7 + b"b")
    assert lines.count_newlines(text) == 14
    monkeypatch.setattr(lines, "numpy", None)
    assert lines.count_newlines(text) == 14


def test_lines_are_sent_without_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tqdm", None)
    with sender.progress_bar(total=3) as bar:
        bar.update(3)


def test_without_psutil_an_owner_is_unknown_and_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    """So another query waits, and what a job has staged stays."""
    monkeypatch.setattr(query_owner, "psutil", None)
    here = os.uname().nodename
    unknown = this_owner("query", "run")
    assert unknown == Owner("query", "run", here)
    assert not unknown.gives_way_to(Owner("another", "run", here))
    assert not is_job_that_ended(f"{query_owner.this_job().query}.staged")
    assert not Owner("query", "run", here, os.getpid()).gives_way_to(Owner("another", "run", here))
