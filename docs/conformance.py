"""Examine this package's formats, Spark's own and others', and write docs/conformance.md.

    python docs/conformance.py          all of them, in two processes (some minutes)
    python docs/conformance.py socket   only these again

The page is made of the newest report on each, all with the same versions: reports are kept in
`.work/conformance`, and an examination that was interrupted loses no other one.

What each of them claims stands here, and what it does not, with the reason. The package
`pyspark-data-sources` is installed into `.work/conformance`: it isn't part of this project's
environment.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import platform
import socket
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from typing import Any, cast

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from spark_connector_tests import (
    SINK_PROMISES,
    SOURCE_PROMISES,
    Promise,
    Report,
    StreamSink,
    StreamSource,
    Verdict,
    examine_sink,
    examine_source,
)
from spark_connector_tests.query_process import wait_until
from tests.conftest import FIRST_COMPILER
from tests.integration import kit_subjects
from tests.versions.environments import OTHERS, other_packages
from tutorial_pkg import __version__, start_spark
from tutorial_pkg.core.places import work_dir
from tutorial_pkg.session.java import find_java
from tutorial_pkg.session.start import stop_spark

PAGE = Path(__file__).with_suffix(".md")
BY_VERSION = "\n## Other people's, by version of Spark\n"

ONCE = "the manual: for testing only, as it gives no end-to-end fault tolerance"
ONE_LINE = "one row is one line: a text with line ends becomes several rows"
NO_NULL = "a line of text has no null: it becomes an empty one"

# ---- Spark's sources -----------------------------------------------------------------------------


def rate(folder: Path) -> StreamSource:
    return StreamSource(
        "rate",
        {"rowsPerSecond": 500},
        other_parallelism={"numPartitions": 3},
        not_claimed={"available_now": "it makes rows without end"},
    )


def files_of(name: str, schema: str | None = None) -> Callable[[Path], StreamSource]:
    """A source that reads each file of a folder once."""

    def describe(folder: Path) -> StreamSource:
        return StreamSource(
            name,
            {"path": folder},
            schema,
            feed=lambda numbers: kit_subjects.post(folder, numbers),
        )

    return describe


class LineServer:
    """Where the socket source connects to: the newest connection gets the lines."""

    def __init__(self) -> None:
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port = self.listening.getsockname()[1]
        self.clients: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def feed(self, numbers: Sequence[int]) -> None:
        wait_until(lambda: self.clients, 60, "a connection")
        self.clients[-1].sendall("".join(f"{number}\n" for number in numbers).encode())

    def close(self) -> None:
        for open_one in (self.listening, *self.clients):
            open_one.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                self.clients.append(self.listening.accept()[0])


def socket_source(folder: Path) -> StreamSource:
    server = LineServer()
    return StreamSource(
        "socket",
        {"host": "127.0.0.1", "port": server.port},
        feed=server.feed,
        feed_when_stopped=False,
        restarts=False,
        not_claimed={"available_now": ONCE},
        close=server.close,
    )


# ---- Spark's sinks -------------------------------------------------------------------------------

CSV = {"quoteAll": "true", "escape": '"', "multiLine": "true"}
CSV |= {"nullValue": "\\N"}  # else a null is an empty text
CSV |= {"ignoreLeadingWhiteSpace": "false", "ignoreTrailingWhiteSpace": "false"}


def written_files(
    name: str, unclaimed: Mapping[str, str], **options: str
) -> Callable[..., StreamSink]:
    """A sink that writes files, read back by Spark, as its manual says they have to be."""

    def describe(folder: Path) -> StreamSink:
        def read() -> list[str]:
            source = active().read.schema("value STRING").format(name).options(**options)
            with contextlib.suppress(AnalysisException):  # before the first batch
                return [row.value for row in source.load(str(folder / "out")).collect()]
            return []

        where = {"path": folder / "out", **options}
        return StreamSink(name, read, where, not_claimed=unclaimed)

    return describe


def memory(folder: Path) -> StreamSink:
    table = f"kit_{folder.parent.name.replace('-', '_')}"

    def read() -> list[str]:
        if not active().catalog.tableExists(table):
            return []
        return [row.value for row in active().table(table).collect()]

    unclaimed = {"new_query": "a new query begins a new table"}
    return StreamSink("memory", read, {"queryName": table}, restarts=False, not_claimed=unclaimed)


def active() -> SparkSession:
    return SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()


# ---- Other people's ------------------------------------------------------------------------------


def fake(folder: Path) -> StreamSource:
    """Describe a source of invented people; its rows carry no number."""
    data_source = importlib.import_module("pyspark_datasources").FakeDataSource
    return StreamSource(data_source, number=None)


def find_others() -> None:
    """Put them on the path of this process, of its Spark and of the drivers to kill."""
    folder = str(other_packages())
    sys.path.append(folder)
    os.environ["PYTHONPATH"] = os.pathsep.join([os.environ.get("PYTHONPATH", ""), folder])


# ---- The page ------------------------------------------------------------------------------------

# The claims of each format, as in its manual.
SOURCES: dict[str, tuple[Callable[[Path], StreamSource], str]] = {
    "file_lines": (kit_subjects.file_lines, "ours: replayable while files are appended to"),
    "cpu_log": (kit_subjects.cpu_log_source, "ours: as `file_lines`"),
    "network_lines": (
        kit_subjects.network_lines,
        "ours: exactly once from its log on, and from senders that have a name",
    ),
    "network_lines over TLS": (
        kit_subjects.network_lines_tls,
        "the same, with certificates on both sides",
    ),
    "builder stream": (
        kit_subjects.built_stream,
        "`SourceBuilder.stream` with snapshot and restore: exactly once",
    ),
    "builder replayable": (
        kit_subjects.built_replayable,
        "`SourceBuilder.replayable`: exactly once",
    ),
    "rate": (rate, "Spark: for testing; makes numbered rows"),
    "socket": (socket_source, "Spark: for testing only, no fault tolerance"),
    "text": (files_of("text"), "Spark: files that appear whole, exactly once"),
    "csv": (files_of("csv", "value LONG"), "Spark: files that appear whole, exactly once"),
    "fake": (fake, "pyspark-data-sources: invented rows, claims nothing about restarts"),
}
SINKS: dict[str, tuple[Callable[[Path], StreamSink], str]] = {
    "cpu_log": (kit_subjects.cpu_log_sink, "ours: exactly once"),
    "builder": (kit_subjects.built_sink, "`SinkBuilder` with a commit into SQLite: exactly once"),
    "text": (
        written_files("text", {"awkward_text": ONE_LINE, "nulls": NO_NULL}),
        "Spark's file sink: exactly once, for readers that go by `_spark_metadata`",
    ),
    "csv": (
        written_files("csv", {}, **CSV),
        "Spark's file sink: exactly once, for readers that go by `_spark_metadata`",
    ),
    "memory": (memory, "Spark: for debugging, a table in the driver's memory"),
}

HEAD = """\
# Which format keeps which promise

`python docs/conformance.py` examines this package's formats, Spark's and others' with the
conformance kit (`spark_connector_tests`) and writes this page. ✓ means that the promise was kept,
✗ that it was broken. – means that the format doesn't claim it, or that the kit can't try it there,
for instance for lack of a server to restart. `rate`, `socket`, `memory` and `fake` are made for
trials: their ✗ isn't a fault, but shows what not to build on. A mark shows what one examination on
one machine has seen; the reasons for each ✗ are below the table.

{versions}

Of `pyspark-data-sources` only `fake` can be examined: its other streams (the sources `opensky` and
`weather`, the sinks `salesforce` and `meta_capi`) talk to services on the internet, and the rest is
for batches. This package's formats for PostgreSQL, Kafka, NATS and lakes need a server, and are
examined by `make soak`.
"""


def versions() -> str:
    """Return the versions that a report depends on."""
    ours = [f"pyspark {version('pyspark')}", f"tutorial_pkg {__version__}"]
    others = [f"{name} {number}" for name, number in OTHERS.items()]
    system = f"Python {platform.python_version()}, Java {find_java().release}, {platform.system()}"
    return f"{', '.join([*ours, *others])}; {system}."


def page() -> str:
    """Return the page, made of the reports with these versions."""
    parts = [HEAD.format(versions=versions())]
    parts += section("Sources", SOURCE_PROMISES, SOURCES)
    parts += section("Sinks", SINK_PROMISES, SINKS)
    return "\n".join(parts) + by_version()


def by_version() -> str:
    """The last section, which `python docs/versions.py` writes."""
    return BY_VERSION + PAGE.read_text().partition(BY_VERSION)[2]


def section(
    title: str, promises: Sequence[Promise], described: Mapping[str, tuple[object, str]]
) -> list[str]:
    kept = {name: Kept(title, name) for name in described}
    reports = {name: file.report() for name, file in kept.items() if file.there()}
    claims = [f"- `{name}`: {described[name][1]}." for name in reports]
    return [
        *(f"## {title}\n", "Their claims:\n", *claims, ""),
        *(table(promises, reports), "### Why ✗\n", *remarks(reports), ""),
    ]


class Kept:
    """A report on disk, with the versions that it is about."""

    def __init__(self, title: str, name: str) -> None:
        self._file = work_dir("conformance", "reports") / f"{title}-{name.replace(' ', '-')}.json"

    def write(self, report: Report) -> None:
        self._file.write_text(json.dumps({"versions": versions(), **asdict(report)}))

    def there(self) -> bool:
        """Whether it was written, with these versions."""
        return self._file.exists() and self._content()["versions"] == versions()

    def report(self) -> Report:
        content = self._content()
        verdicts = [Verdict(**verdict) for verdict in content["verdicts"]]
        return Report(content["subject"], verdicts, content["seconds"])

    def _content(self) -> dict[str, Any]:
        return cast(dict[str, Any], json.loads(self._file.read_text()))


def table(promises: Sequence[Promise], reports: dict[str, Report]) -> str:
    """A row for each promise, a column for each format."""
    lines = ["| promise | " + " | ".join(f"`{name}`" for name in reports) + " |"]
    lines.append("|---" * (len(reports) + 1) + "|")
    for promise in promises:
        marks = " | ".join(mark_of(promise.name, report) for report in reports.values())
        lines.append(f"| **{promise.name}**: {promise.sentence} | {marks} |")
    return "\n".join(lines) + "\n"


def mark_of(name: str, report: Report) -> str:
    """Empty when the promise is newer than the report."""
    return next((verdict.mark for verdict in report.verdicts if verdict.name == name), " ")


def remarks(reports: dict[str, Report]) -> list[str]:
    """Return a line for each reason of a broken promise, with all promises that it breaks."""
    lines = []
    for name, report in reports.items():
        reasons: dict[str, list[str]] = {}
        for verdict in report.verdicts:
            if verdict.seen and verdict.mark == "✗":
                seen = " ".join(verdict.seen.split())[:300]
                reasons.setdefault(seen, []).append(verdict.name)
        for seen, names in reasons.items():
            lines.append(f"- `{name}`, {', '.join(names)}: {seen}")
    return lines or ["Nothing is broken."]


def main(names: Sequence[str]) -> None:
    find_others()
    os.environ.setdefault("JDK_JAVA_OPTIONS", FIRST_COMPILER)  # as for tests: no JVM lives long
    if names:
        examine(names)
    else:
        at_once = list(dict.fromkeys([*SOURCES, *SINKS]))
        with get_context("spawn").Pool(2) as processes:
            processes.map(examine, [at_once[::2], at_once[1::2]], chunksize=1)
    PAGE.write_text(page())


def examine(names: Sequence[str]) -> None:
    spark = start_spark("conformance", **{"spark.ui.enabled": "false"})
    try:
        for name in names:
            if name in SOURCES:
                keep("Sources", name, examine_source(SOURCES[name][0], spark))
            if name in SINKS:
                keep("Sinks", name, examine_sink(SINKS[name][0], spark))
    finally:
        stop_spark(spark)


def keep(title: str, name: str, report: Report) -> None:
    print(f"{report}\n  {report.seconds:.0f} s\n", flush=True)
    Kept(title, name).write(report)


if __name__ == "__main__":
    main(sys.argv[1:])
