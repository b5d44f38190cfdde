"""The names that PySpark does not call public and that we lean on nevertheless: they must stay."""

from __future__ import annotations

import inspect
import socketserver
from collections.abc import Callable
from importlib import import_module

import pytest
from py4j.java_gateway import JavaGateway, PythonProxyPool
from pyspark import SparkContext, accumulators
from pyspark.errors.exceptions import base
from pyspark.java_gateway import ensure_callback_server_started, launch_gateway
from pyspark.sql.datasource_internal import _streamReader
from pyspark.sql.streaming.listener import JStreamingQueryListener, StreamingQueryListener

from tutorial_pkg import QueryMetrics
from tutorial_pkg.core.worker import SOURCE_RUNNER


@pytest.mark.parametrize(
    ("function", "parameters"),
    [
        (launch_gateway, ["conf", "popen_kwargs"]),
        (ensure_callback_server_started, ["gw"]),
        (_streamReader, ["datasource", "schema"]),
    ],
)
def test_what_we_call(function: Callable[..., object], parameters: list[str]) -> None:
    assert list(inspect.signature(function).parameters) == parameters


@pytest.mark.parametrize(
    ("where", "text"),
    [
        (SparkContext, "_active_spark_context"),
        (SparkContext, "_gateway"),
        (SparkContext, "_jsc"),
        (SparkContext, "_jvm"),
        (SparkContext, "self.environment"),
        (JavaGateway, "self.gateway_property"),
        (StreamingQueryListener, 'hasattr(self, "_jlistenerobj")'),
        (base, '"DataFrameQueryContextLogger"'),  # the loggers that print stack traces
        (base, '"SQLQueryContextLogger"'),
        (import_module(SOURCE_RUNNER).main, "_streamReader("),  # the process that asks sources
    ],
)
def test_what_we_look_into(where: object, text: str) -> None:
    assert text in inspect.getsource(where)


def test_the_accumulator_servers_can_be_quieted() -> None:
    for server in (accumulators.AccumulatorTCPServer, accumulators.AccumulatorUnixServer):
        assert issubclass(server, socketserver.BaseServer)


def test_a_listener_is_among_what_the_jvm_can_call() -> None:
    listener, pool = QueryMetrics(), PythonProxyPool()
    assert JStreamingQueryListener(listener).pylistener is listener
    pool.put(listener)
    assert list(pool.dict.values()) == [listener]
