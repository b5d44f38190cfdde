"""The promises as pytest classes to inherit: one test for each promise."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tutorial_pkg.testing.described import StreamSink, StreamSource
from tutorial_pkg.testing.examination import Examination, sink_examination, source_examination
from tutorial_pkg.testing.promise import Promise
from tutorial_pkg.testing.report import BROKEN, NOT_CLAIMED, Verdict
from tutorial_pkg.testing.sink_promises import SINK_PROMISES
from tutorial_pkg.testing.sink_trial import SinkTrial
from tutorial_pkg.testing.source_promises import SOURCE_PROMISES
from tutorial_pkg.testing.source_trial import SourceTrial


class StreamSourceTests:
    """Inherit, and write `describe`; a fixture `spark` must give the session."""

    def describe(self, folder: Path) -> StreamSource:
        """The source under test; `folder` is its own."""
        raise NotImplementedError(f"{type(self).__name__} must describe its source")

    @pytest.fixture(scope="class")
    def examination(
        self, request: pytest.FixtureRequest, spark: SparkSession
    ) -> Iterator[Examination[SourceTrial]]:
        with source_examination(spark, request.cls().describe) as examination:
            yield examination

    @pytest.mark.parametrize("promise", SOURCE_PROMISES, ids=lambda promise: promise.name)
    def test_keeps(
        self, examination: Examination[SourceTrial], promise: Promise[SourceTrial]
    ) -> None:
        _judge(examination.verdict(promise))


class StreamSinkTests:
    """Inherit, and write `describe`; a fixture `spark` must give the session."""

    def describe(self, folder: Path) -> StreamSink:
        """The sink under test; `folder` is its own."""
        raise NotImplementedError(f"{type(self).__name__} must describe its sink")

    @pytest.fixture(scope="class")
    def examination(
        self, request: pytest.FixtureRequest, spark: SparkSession
    ) -> Iterator[Examination[SinkTrial]]:
        with sink_examination(spark, request.cls().describe) as examination:
            yield examination

    @pytest.mark.parametrize("promise", SINK_PROMISES, ids=lambda promise: promise.name)
    def test_keeps(self, examination: Examination[SinkTrial], promise: Promise[SinkTrial]) -> None:
        _judge(examination.verdict(promise))


def _judge(verdict: Verdict) -> None:
    if verdict.mark == NOT_CLAIMED:
        pytest.skip(f"not claimed: {verdict.seen}")
    if verdict.mark == BROKEN:
        pytest.fail(f"{verdict.sentence}\n{verdict.seen}\n→ {verdict.remedy}", pytrace=False)
