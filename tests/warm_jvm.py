"""A JVM that stays warm: the notebooks' kernels of a pytest process use it in turn.

A new JVM takes some ten seconds of CPU time until a stream's first row. A kernel gets the warm one
as if it came from an earlier session in the same process: Spark, its settings and its Python
workers are new, only the JVM is not. Processes that a notebook starts don't use it. If the tests
need a session themselves, they take this JVM, and later kernels get another one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from nbval.plugin import IPyNbCell
from pyspark import SparkContext

from tutorial_pkg.session import start
from tutorial_pkg.session.settings import socket_folder

PROJECT = Path(__file__).parents[1]
# The start is what 00 is about; 01 reads what its JVM prints; 19 uses a cluster; the
# tasks of 16 find their keys in the environment that the JVM was started with.
COLD = ("00", "01", "16", "19")
SECONDS = 120

ATTACH = """
def attach(where, sockets):
    import os
    from types import SimpleNamespace
    from pyspark import SparkContext
    from pyspark.java_gateway import launch_gateway
    from tutorial_pkg.session import settings
    os.environ.update(where)
    SparkContext._ensure_initialized(gateway=launch_gateway())
    for name in where:
        del os.environ[name]  # for this process alone
    settings.socket_folder = lambda: SimpleNamespace(name=sockets)  # a JVM keeps its first one
attach({where}, {sockets!r})
del attach
"""


class WarmJvm:
    """As a pytest plugin, it gives each notebook's kernel the JVM before the first cell runs."""

    def __init__(self) -> None:
        self._gateway: Any = None

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Iterator[None]:
        yield  # the kernel starts
        if isinstance(item, IPyNbCell) and item.cell_num == 0 and not is_cold(item):
            self._end_if_in_use()
            self._gateway = self._gateway or launched()
            client = item.parent.kernel.kc
            sockets = socket_folder().name  # of this process, which started the JVM
            code = ATTACH.format(where=new_door(self._gateway.jvm), sockets=sockets)
            reply = client.execute_interactive(code, silent=True, timeout=SECONDS)
            assert reply["content"]["status"] == "ok", reply["content"]

    def take(self) -> None:
        """Let the tests' own session have the JVM, if there is one; that session ends it."""
        self._end_if_in_use()
        if self._gateway:
            SparkContext._ensure_initialized(gateway=self._gateway)
        self._gateway = None

    def end(self) -> None:
        if self._gateway:
            self._gateway.shutdown()
            self._gateway.proc.stdin.close()
            self._gateway.proc.wait(SECONDS)
            self._gateway = None

    def _end_if_in_use(self) -> None:
        """A notebook that fails leaves its Spark running, and a JVM has one Spark at a time."""
        if self._gateway and has_spark(self._gateway.jvm):
            self.end()


def is_cold(item: IPyNbCell) -> bool:
    return item.parent.path.name.startswith(COLD)


def has_spark(jvm: Any) -> bool:
    contexts = getattr(getattr(jvm.org.apache.spark, "SparkContext$"), "MODULE$")
    return bool(contexts.getActive().isDefined())


def launched() -> Any:
    """Spark's Python processes take over its folder, that of notebooks, and find the tests."""
    start._prepare_python()
    with chdir(PROJECT / "notebooks"), patch.dict(os.environ, PYTHONPATH=str(PROJECT)):
        return start.launch({"spark.master": "local[2]"}, start._open_log())


def new_door(jvm: Any) -> dict[str, str]:
    """Return the variables that `launch_gateway` reads; the server ends with its client."""
    server = jvm.org.apache.spark.api.python.Py4JServer(jvm.SparkConf())
    server.start()
    port, secret = str(server.getListeningPort()), server.secret()
    return {"PYSPARK_GATEWAY_PORT": port, "PYSPARK_GATEWAY_SECRET": secret}
