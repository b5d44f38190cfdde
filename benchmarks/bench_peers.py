"""The line sources beside those of Flink and Bytewax, in turns, in one run.

    python benchmarks/bench_peers.py [--lines 3000000] [--rounds 3] [--conf key=value ...]

Each peer gets a virtual environment of its own under `.work/peers/`, made when it is missing; this
needs the network once. A peer stays running between its jobs, so its JVM is as warm as Spark's.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench_file_lines import Batch, write_lines
from bench_network_lines import PORT, NetworkLines, a_sender
from measure import Result, Series, Watch, finish, in_turns, parse, series_of
from pyspark.sql import SparkSession

from tutorial_pkg import start_spark
from tutorial_pkg.core.places import work_dir
from tutorial_pkg.session.java import find_java

VERSIONS = {"flink": "apache-flink==2.3.0", "bytewax": "bytewax==0.21.1"}
PAUSE = 1.0  # ending a Flink job goes on in its JVM after its answer
MORE_ROUNDS = 2  # than asked for: processes of several programs disturb each other
WARM_UP_ROUNDS = 20  # the JVMs of both go on getting faster for some 60 million lines


def environment(peer: str) -> Path:
    """The Python of the peer's environment, in which it is installed."""
    folder = work_dir("peers") / peer
    python, ready = folder / "bin" / "python", folder / VERSIONS[peer]
    if not ready.exists():
        print(f"installing {VERSIONS[peer]} ...", flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", VERSIONS[peer]], check=True)
        ready.touch()
    return python


class Peer:
    """A peer's process, which runs a job on request."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(self, kind: str, lines: int, file: Path) -> float:
        """The seconds that the job took. Raises `RuntimeError` if the peer has died."""
        self._process.stdin.write(json.dumps([kind, lines, str(file)]) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"{self._process.args[1]} ended; see {_log()}")
        return json.loads(answer)


@contextmanager
def peer(name: str) -> Iterator[Peer]:
    script = Path(__file__).with_name(f"peer_{name}.py")
    command = [environment(name), script]
    java = {**os.environ, "JAVA_HOME": str(find_java().home)}
    pipe = subprocess.PIPE
    with (
        _log().open("a") as log,
        subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=log, text=True, env=java) as run,
    ):
        yield Peer(run)
        run.stdin.close()


def _log() -> Path:
    return work_dir("bench") / "peers.log"


def measure_sockets(
    ours: NetworkLines, peers: dict[str, Peer], lines: int, rounds: int
) -> list[Series]:
    runs = {
        "network_lines": lambda: ours.burst(lines),
        "Flink socketTextStream": lambda: peers["flink"].run("socket", lines, Path()),
        "Bytewax, a source that listens": lambda: peers["bytewax"].run("socket", lines, Path()),
    }
    seconds = in_turns(runs, rounds * MORE_ROUNDS, WARM_UP_ROUNDS, pause=PAUSE)
    return series_of(f"a burst of {lines:,}", lines, seconds, base="Flink socketTextStream")


def measure_files(
    spark: SparkSession, peers: dict[str, Peer], file: Path, lines: int, rounds: int
) -> list[Series]:
    runs = {
        "file_lines, batch": Batch(spark, "file_lines", file, file.parent).run,
        "text, batch": Batch(spark, "text", file, file.parent).run,
        "Flink FileSource": lambda: peers["flink"].run("file", lines, file),
        "Bytewax FileSource": lambda: peers["bytewax"].run("file", lines, file),
    }
    seconds = in_turns(runs, rounds * MORE_ROUNDS, WARM_UP_ROUNDS, pause=PAUSE)
    return series_of(f"a file of {lines:,}", lines, seconds, base="Flink FileSource")


def main() -> None:
    given = parse(__doc__)
    with ExitStack() as opened:
        watch = opened.enter_context(Watch("peers"))
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory(dir=work_dir("bench"))))
        peers = {name: opened.enter_context(peer(name)) for name in VERSIONS}
        sender = opened.enter_context(a_sender())
        spark = start_spark("bench_peers", **given.conf)
        file = folder / "lines.csv"
        write_lines(file, given.lines)
        ours = NetworkLines(spark, folder, sender, PORT, 1)
        series = measure_sockets(ours, peers, given.lines, given.rounds)
        ours.close()
        series += measure_files(spark, peers, file, given.lines, given.rounds)
        spark.stop()
    notes = [f"Versions: {', '.join(VERSIONS.values())}."]
    finish(given, Result("Peers", series, notes=notes), watch)


if __name__ == "__main__":
    main()
