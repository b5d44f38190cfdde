"""Errors in notebooks name the cause, or say that Spark is stopped."""

from __future__ import annotations

import pytest
from pyspark import SparkContext
from pyspark.errors import AnalysisException

from tutorial_pkg.session.cell_errors import RESTART, short_text


@pytest.mark.parametrize("error", [AnalysisException("nope"), AttributeError("no 'sc'")])
def test_stopped_session_says_what_to_run(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    assert short_text(error, "/lib/pyspark/sql/session.py") == RESTART


def test_spark_errors_keep_their_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SparkContext, "_active_spark_context", object())
    text = short_text(AnalysisException("no such column"), "<cell>")
    assert text == "AnalysisException: no such column"


def test_errors_of_your_own_stay_whole() -> None:
    assert short_text(ConnectionRefusedError(), "socket.py") is None
    assert short_text(AttributeError(), "<ipykernel_1>") is None
