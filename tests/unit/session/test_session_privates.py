"""The names that PySpark does not call public and that we lean on nevertheless: they must stay."""

from __future__ import annotations

import inspect
import socketserver
from importlib import import_module

from py4j.java_gateway import JavaGateway, PythonProxyPool
from pyspark import SparkContext, accumulators
from pyspark.errors.exceptions import base
from pyspark.java_gateway import ensure_callback_server_started, launch_gateway
from pyspark.sql.datasource_internal import _streamReader
from pyspark.sql.streaming.listener import JStreamingQueryListener, StreamingQueryListener

from tutorial_pkg import QueryMetrics
from tutorial_pkg.core.worker import SOURCE_RUNNER


def test_the_gateway_can_be_launched_with_its_output_elsewhere() -> None:
    assert list(inspect.signature(launch_gateway).parameters) == ["conf", "popen_kwargs"]
    assert hasattr(SparkContext, "_gateway")
    assert hasattr(SparkContext, "_jvm")
    assert hasattr(SparkContext, "_active_spark_context")


def test_the_accumulator_servers_can_be_quieted() -> None:
    for server in (accumulators.AccumulatorTCPServer, accumulators.AccumulatorUnixServer):
        assert issubclass(server, socketserver.BaseServer)
        assert callable(server.handle_error)


def test_a_listener_can_be_parted_from_its_java_side() -> None:
    """It is found among what the JVM can call, and has a name for what it keeps."""
    listener = QueryMetrics()
    assert JStreamingQueryListener(listener).pylistener is listener
    assert 'hasattr(self, "_jlistenerobj")' in inspect.getsource(StreamingQueryListener)
    pool = PythonProxyPool()
    pool.put(listener)
    assert list(pool.dict.values()) == [listener]
    assert "self.gateway_property" in inspect.getsource(JavaGateway)


def test_the_loggers_that_print_stack_traces_have_the_names_we_quiet() -> None:
    source = inspect.getsource(base)
    assert '"DataFrameQueryContextLogger"' in source
    assert '"SQLQueryContextLogger"' in source


def test_the_context_has_its_java_side_and_the_workers_environment() -> None:
    assert "_jsc" in SparkContext.__annotations__ or "_jsc" in inspect.getsource(SparkContext)
    assert "self.environment" in inspect.getsource(SparkContext)


def test_the_process_that_asks_sources_has_its_name() -> None:
    assert "_streamReader(" in inspect.getsource(import_module(SOURCE_RUNNER).main)


def test_the_jvm_can_call_back() -> None:
    assert list(inspect.signature(ensure_callback_server_started).parameters) == ["gw"]


def test_a_simple_reader_can_be_wrapped_as_spark_does_it() -> None:
    assert list(inspect.signature(_streamReader).parameters) == ["datasource", "schema"]
