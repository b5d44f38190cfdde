"""The promises as pytest classes to inherit: one test for each promise."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
from pyspark.sql import SparkSession

from spark_connector_tests.described import StreamSink, StreamSource
from spark_connector_tests.examination import Examination, sink_examination, source_examination
from spark_connector_tests.promise import Promise
from spark_connector_tests.report import ADVICE, BROKEN, NOT_CLAIMED
from spark_connector_tests.sink_promises import SINK_PROMISES
from spark_connector_tests.source_promises import SOURCE_PROMISES


class _Tests:
    """One examination for the class, and a test for each promise."""

    promises: ClassVar[Sequence[Promise[Any]]]
    examined: ClassVar[Callable[..., Examination[Any]]]

    @pytest.fixture(scope="class")
    @classmethod
    def examination(cls, spark: SparkSession) -> Iterator[Examination[Any]]:
        with cls.examined(spark, cls().describe) as examination:
            examination.begin(cls.promises)
            yield examination

    @abstractmethod
    def describe(self, folder: Path) -> Any: ...

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        metafunc.parametrize("promise", self.promises, ids=lambda promise: promise.name)

    def test_keeps(self, examination: Examination[Any], promise: Promise[Any]) -> None:
        verdict = examination.verdict(promise)
        if verdict.mark == NOT_CLAIMED:
            pytest.skip(f"not claimed: {verdict.seen}")
        told = f"{verdict.sentence}\n{verdict.seen}\n→ {verdict.remedy}"
        if verdict.mark == BROKEN:
            pytest.fail(told, pytrace=False)
        if verdict.mark == ADVICE:
            warnings.warn(told, stacklevel=1)


class StreamSourceTests(_Tests):
    """Inherit, and write `describe`; a fixture `spark` must give the session."""

    promises = SOURCE_PROMISES
    examined = staticmethod(source_examination)

    def describe(self, folder: Path) -> StreamSource:
        """The source under test; `folder` is its own."""
        raise NotImplementedError(f"{type(self).__name__} must describe what is under test")


class StreamSinkTests(_Tests):
    """Inherit, and write `describe`; a fixture `spark` must give the session."""

    promises = SINK_PROMISES
    examined = staticmethod(sink_examination)

    def describe(self, folder: Path) -> StreamSink:
        """The sink under test; `folder` is its own."""
        raise NotImplementedError(f"{type(self).__name__} must describe what is under test")
