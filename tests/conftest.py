"""Shared by all tests: one Spark session, free ports, and a check for processes left behind."""

from __future__ import annotations

import os
import random
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial

import nbval.kernel
import psutil
import pytest
from jupyter_client.manager import KernelManager
from pyspark.sql import SparkSession

from spark_connector_tests.query_process import wait_for_end
from tests.soak import part_of
from tests.warm_jvm import WarmJvm
from tutorial_pkg import register, start_spark
from tutorial_pkg.core.places import is_free
from tutorial_pkg.session.java import find_java
from tutorial_pkg.session.start import stop_spark

OVER_CONNECT = "TESTS_OVER_CONNECT"
# With one compiler the JVM's code cache shrinks to 48 MB; a full one is swept and compiled again.
FIRST_COMPILER = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m"
warm_jvm = WarmJvm()
sockets = tempfile.TemporaryDirectory(prefix="kernels-")  # until the process ends


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--part", help="I/N: every Nth test, from the Ith on; I may be a day's number")


@pytest.hookimpl(trylast=True)  # of those that other options have left
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.option.part:
        kept = part_of(items, config.option.part)
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = kept


def pytest_configure(config: pytest.Config) -> None:
    """Without the soak, the conformance kit kills once, and JVMs use their first compiler only.

    Most of them don't live long enough for the second one to pay off. Kernels listen on sockets in
    a folder: a port that is free when Jupyter chooses it may be taken when the kernel has started.
    """
    config.pluginmanager.register(warm_jvm)
    nbval.kernel.KernelManager = partial(KernelManager, transport="ipc", ip=f"{sockets.name}/k")
    if config.option.markexpr != "soak":
        os.environ.setdefault("JDK_JAVA_OPTIONS", FIRST_COMPILER)
        os.environ.setdefault("TUTORIAL_PKG_KILLS", "1")  # here, and in the notebooks' kernels
    # NumPy's other threads take half of the time that its import takes, in hundreds of processes.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Return a local Spark session with the package's formats registered."""
    warm_jvm.take()
    session = connect_session() if OVER_CONNECT in os.environ else start_spark("tests", cores=2)
    yield session
    stop_spark(session)


def connect_session() -> SparkSession:
    """Start a session of Spark Connect, with its own server on this machine."""
    os.environ["JAVA_HOME"] = str(find_java().home)
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder.remote("local[2]").config("spark.sql.session.timeZone", "UTC")
    session = builder.config("spark.sql.shuffle.partitions", 2).getOrCreate()
    register(session)
    return session


@pytest.fixture(autouse=True)
def queries_stopped(request: pytest.FixtureRequest) -> Iterator[None]:
    """Stop the queries of a test that has failed."""
    yield
    if "spark" in request.fixturenames:
        for query in request.getfixturevalue("spark").streams.active:
            query.stop()


@pytest.fixture
def free_ports() -> Callable[[int], int]:
    """Return a function that finds the first of n consecutive free TCP ports."""
    return first_of_free_ports


def first_of_free_ports(count: int = 1) -> int:
    """Return the first of free ports below those that servers and the system's clients get."""
    for _ in range(100):
        first = random.randint(12_000, 21_000)
        if all(is_free(first + i) for i in range(count)):
            return first
    raise RuntimeError(f"no {count} consecutive free ports")


left_behind: list[str] = []


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail the run if processes are left; pytest-xdist's workers report them to their parent."""
    warm_jvm.end()
    if not session.config.getoption("numprocesses", None):
        left_behind.extend(processes_left())
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left behind"] = left_behind
    elif left_behind:
        session.exitstatus = 1
        print(f"\nprocesses left behind by the tests: {', '.join(left_behind)}")


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node) -> None:
    left_behind.extend(getattr(node, "workeroutput", {}).get("left behind", []))


def processes_left() -> list[str]:
    return list(map(str, wait_for_end(psutil.Process().children(recursive=True), 10)))
