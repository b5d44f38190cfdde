"""StreamSourceTests and StreamSinkTests: pytest classes to inherit, one test for each promise.

class TestMySource(StreamSourceTests):  # a fixture `spark` provides a session
    def describe(self, folder):
        return my_source(folder)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
from pyspark.sql import SparkSession

from spark_connector_tests.examination import Examination
from spark_connector_tests.promise import Promise
from spark_connector_tests.report import BROKEN, NOT_CLAIMED
from spark_connector_tests.sink_promises import SINK_PROMISES
from spark_connector_tests.source_promises import SOURCE_PROMISES


class _Tests:
    """Inherit, and write `describe`; a fixture `spark` must provide the session."""

    promises: ClassVar[Sequence[Promise]]

    def describe(self, folder: Path) -> Any:
        """Describe what is under test; `folder` is empty, and for this description alone."""
        raise NotImplementedError(f"{type(self).__name__} needs a method `describe`")

    @pytest.fixture(scope="class")
    @classmethod
    def examination(cls, spark: SparkSession) -> Iterator[Examination]:
        with Examination(cls().describe, spark) as examination:
            examination.prepare(cls.promises)
            yield examination

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        metafunc.parametrize("promise", self.promises, ids=lambda promise: promise.name)

    def test_keeps(self, examination: Examination, promise: Promise) -> None:
        verdict = examination.verdict(promise)
        if verdict.mark == NOT_CLAIMED:
            pytest.skip(f"not claimed: {verdict.seen}")
        if verdict.mark == BROKEN:
            pytest.fail(str(verdict), pytrace=False)


class StreamSourceTests(_Tests):
    """Inherit, and have `describe(folder)` return a `StreamSource`; needs a fixture `spark`."""

    promises = SOURCE_PROMISES


class StreamSinkTests(_Tests):
    """Inherit, and have `describe(folder)` return a `StreamSink`; needs a fixture `spark`."""

    promises = SINK_PROMISES
