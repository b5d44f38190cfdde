"""What trust costs `network_lines`: TLS beside plain TCP; one, two and four receivers.

    python benchmarks/bench_network_trust.py [--lines 3000000] [--rounds 3] [--conf key=value ...]

A process of its own sends lines of 77 bytes to running queries with the noop sink. What counts is
the time from the first byte until the last row has passed. Receivers are processes of their own,
and one query reads all of their logs by a glob.
"""

from __future__ import annotations

import multiprocessing
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import trustme
from lines import BLOCK, BLOCK_LINES
from measure import Result, Series, Watch, finish, in_turns, parse, series_of
from pyspark.sql import SparkSession

from spark_connector_tests.query_process import wait_until
from tutorial_pkg import network_status, start_spark
from tutorial_pkg.connectors.network_lines import client_tls
from tutorial_pkg.connectors.network_lines.sender import Channel
from tutorial_pkg.connectors.network_lines.sender import finish as confirm
from tutorial_pkg.core.places import work_dir

HOST, PORT = "127.0.0.1", 22000
RECEIVERS = (1, 2, 4)
NOTE = (
    "Sender, receivers and the query share the cores of one machine. What receivers on machines of "
    "their own add is not measured here."
)
KEPT = "spark.sql.streaming.numRecentProgressUpdates"


def send_burst(ports: list[int], lines: int, ca: str | None, certificate: str | None) -> float:
    """Send `lines` to `ports` in equal parts, until all are in the logs; the time it began."""
    tls = client_tls(ca, certificate) if ca else None
    started = time.time()
    with ThreadPoolExecutor(len(ports)) as threads:
        list(threads.map(lambda port: send(port, lines // len(ports), tls), ports))
    return started


def send(port: int, lines: int, tls: ssl.SSLContext | None) -> None:
    with Channel((HOST, port), tls, None) as sending:
        for _ in range(lines // BLOCK_LINES):
            sending.send(BLOCK)
        if confirm(sending):
            raise RuntimeError("lines were dropped")


class Contestant:
    """A query on the log at `path`, and whoever sends to `ports`."""

    def __init__(
        self,
        spark: SparkSession,
        path: Path,
        ports: list[int],
        sender: ProcessPoolExecutor,
        tls: tuple[Path, Path] | None = None,
    ) -> None:
        self._ports, self._sender, self._tls = ports, sender, tls
        options = {"tlsCertificate": tls[1], "tlsClientCa": tls[0]} if tls else {}
        source = spark.readStream.format("network_lines").options(port=ports[0], **options)
        writer = source.load(str(path)).writeStream.format("noop")
        checkpoint = path.parent / f"checkpoint-{ports[0]}"
        self._query = writer.option("checkpointLocation", str(checkpoint)).start()
        self._lines = 0

    def burst(self, lines: int) -> float:
        files = [str(file) for file in self._tls] if self._tls else [None, None]
        started: float = self._sender.submit(send_burst, self._ports, lines, *files).result()
        self._lines += lines
        while self._passed() < self._lines:  # a receiver tells of its lines some moments later
            self._query.processAllAvailable()
        return time.time() - started

    def _passed(self) -> int:
        return sum(progress["numInputRows"] for progress in self._query.recentProgress)

    def close(self) -> None:
        self._query.stop()


def certificates(folder: Path) -> tuple[Path, Path]:
    """Authority and, for both sides, one certificate."""
    authority, ca, both = trustme.CA(), folder / "ca.pem", folder / "both.pem"
    authority.cert_pem.write_to_path(ca)
    authority.issue_cert(HOST, "sender").private_key_and_cert_chain_pem.write_to_path(both)
    return ca, both


def start_receivers(folder: Path, ports: list[int], opened: ExitStack) -> Path:
    """Processes, a port each, with logs side by side; the glob for all of them."""
    for port in ports:
        log = folder / f"receivers-{len(ports)}" / str(port)
        command = [sys.executable, "-m", "tutorial_pkg", "receive", log, "--port", port]
        process = subprocess.Popen([str(word) for word in command])
        opened.callback(process.wait)
        opened.callback(process.terminate)
        wait_until(lambda log=log: network_status(log).listening, 60, "a receiver that listens")
    return folder / f"receivers-{len(ports)}" / "*"


def measure(
    group: str, contestants: dict[str, Contestant], lines: int, rounds: int, base: str
) -> list[Series]:
    runs: dict[str, Callable[[], float]] = {
        name: partial(each.burst, lines) for name, each in contestants.items()
    }
    return series_of(group, lines, in_turns(runs, rounds), base)


def main() -> None:
    given = parse(__doc__)
    with ExitStack() as opened:
        watch = opened.enter_context(Watch("network_lines, TLS and plain"))
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory(dir=work_dir("bench"))))
        spawn = multiprocessing.get_context("spawn")
        sender = opened.enter_context(ProcessPoolExecutor(1, mp_context=spawn))
        spark = start_spark("bench_network_trust", **{KEPT: "10000"}, **given.conf)
        plain = Contestant(spark, folder / "plain", [PORT], sender)
        tls = Contestant(spark, folder / "tls", [PORT + 1], sender, certificates(folder))
        for log in (folder / "plain", folder / "tls"):
            wait_until(lambda log=log: network_status(log).listening, 60, "listening")
        both = {"plain TCP": plain, "TLS": tls}
        series = measure("burst", both, given.lines, given.rounds, "plain TCP")
        plain.close()
        tls.close()
        watch.phase = "network_lines, receivers"
        many: dict[str, Contestant] = {}
        for count in RECEIVERS:
            ports = [PORT + 10 * count + number for number in range(count)]
            glob = start_receivers(folder, ports, opened)
            many[f"receivers: {count}"] = Contestant(spark, glob, ports, sender)
        series += measure("one query", many, given.lines, given.rounds, "receivers: 1")
        for contestant in many.values():
            contestant.close()
        spark.stop()
    title = "`network_lines`: TLS, and receivers of their own"
    finish(given, Result(title, series, notes=[NOTE]), watch)


if __name__ == "__main__":
    main()
