"""A real Spark cluster on this machine: a standalone master and workers that you can kill.

The daemons come with PySpark. They listen on loopback only, keep everything in one folder, and end
with the `with` block or with the process that started them. To submit a job or to join as a worker
takes a secret, which is in a file that only its user can read, and on no command line.
"""

from __future__ import annotations

import contextlib
import re
import secrets
import shlex
import signal
from pathlib import Path
from typing import Any

import pyspark

from tutorial_pkg.core.disk import replace_file
from tutorial_pkg.core.places import LOOPBACK as HOST
from tutorial_pkg.core.waiting import wait_until
from tutorial_pkg.session.java import archive_options, find_java
from tutorial_pkg.session.start import spark_home
from workbook.services import Daemon

SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
START_SECONDS = 300.0
MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"
SMALL_JVM = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


def run_cluster(folder: Path) -> None:
    """Run a cluster until Ctrl-C or SIGTERM, and print how to use it."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with contextlib.suppress(KeyboardInterrupt), Cluster(folder) as cluster:
        exports = f"export MASTER={cluster.url} SPARK_CONF_DIR={shlex.quote(str(cluster.conf))}"
        print(f"{exports}  # its page: {cluster.ui}")
        worker = f"'Worker.*{cluster.folder}/worker-1 '"
        print(f"kill -9 $(pgrep -f {worker})  # to see a worker die", flush=True)
        signal.pause()


class Cluster(contextlib.AbstractContextManager["Cluster"]):
    """A standalone master and `workers` workers of `cores` cores each.

        with Cluster(folder) as cluster:
            spark = start_spark(**cluster.settings)

    `conf` is a folder for `SPARK_CONF_DIR`: with it, `spark-submit` and `start_spark` know the
    cluster's secret. Raises `RuntimeError` or `TimeoutError` if a daemon does not start.
    """

    def __init__(self, folder: Path, workers: int = 2, cores: int = 1) -> None:
        self.folder = folder.absolute()
        self._cores = cores
        self._secret = {
            "spark.authenticate": "true",
            "spark.authenticate.secret": secrets.token_hex(16),
        }
        self.conf = self.folder / "conf"
        self.conf.mkdir(mode=0o700, parents=True, exist_ok=True)
        text = "".join(f"{name} {value}\n" for name, value in self._secret.items())
        replace_file(self.conf / "spark-defaults.conf", text, mode=0o600)
        self._java = find_java()
        self._archive = archive_options(self._java)
        self._workers: dict[int, Daemon] = {}
        self._master = self._daemon("master", MASTER, "--port", 0, "--webui-port", 0)
        self.url = self._wait_for(self._master, r"Starting Spark master at (spark://\S+)")
        self.ui = self._wait_for(self._master, r"MasterWebUI.* (http://\S+)")
        self.add_worker(workers)

    @property
    def workers(self) -> list[int]:
        """The numbers of the living workers, from 1."""
        return [number for number, worker in self._workers.items() if worker.running]

    @property
    def settings(self) -> dict[str, Any]:
        """What `start_spark` needs to use this cluster."""
        return {
            "spark.master": self.url,
            "spark.executor.memory": "512m",
            "spark.executor.extraJavaOptions": " ".join([*SMALL_JVM, *self._archive]),
            "spark.sql.shuffle.partitions": 2,
            **self._secret,
        }

    def add_worker(self, count: int = 1) -> None:
        """Start a worker, or several at once, and wait until the master knows them."""
        numbers = range(len(self._workers) + 1, len(self._workers) + count + 1)
        for number in numbers:
            name = f"worker-{number}"
            words = ("--webui-port", 0, "--work-dir", self.folder / name, "--cores", self._cores)
            self._workers[number] = self._daemon(name, WORKER, *words, "--memory", "1g", self.url)
        for number in numbers:
            self._wait_for(self._workers[number], r"(Successfully registered with master)")

    def kill_worker(self, number: int | None = None) -> None:
        """`kill -9` a worker with its executors and their Python, as when a machine dies.

        Without a number, that is the first living one.
        """
        self._workers[number or self.workers[0]].close()

    def __exit__(self, *_: object) -> None:
        for daemon in (*self._workers.values(), self._master):
            daemon.close()

    def _daemon(self, name: str, main_class: str, *words: object) -> Daemon:
        env = {
            # With a folder that exists on the class path, Java can't use the class archive.
            "SPARK_CONF_DIR": str(self.folder / "none"),
            "JAVA_HOME": str(self._java.home),
            "SPARK_LOCAL_IP": HOST,
            "SPARK_SCALA_VERSION": "2.13",  # else its script looks for a build of Spark's source
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": " ".join([*SMALL_JVM, *self._archive]),
            "SPARK_LOCAL_DIRS": str(self.folder / name / "local"),
        }
        if home := spark_home():
            env["SPARK_HOME"] = str(home)
        output = self.folder / f"{name}.log"
        output.unlink(missing_ok=True)
        words = ("--host", HOST, "--properties-file", self.conf / "spark-defaults.conf", *words)
        return Daemon(SPARK_CLASS, main_class, *words, output=output, **env)

    def _wait_for(self, daemon: Daemon, pattern: str) -> str:
        """Wait for a line in the daemon's log, and return the pattern's group."""
        log = daemon.output

        def match() -> re.Match[str] | None:
            text = log.read_text(errors="replace")
            if not daemon.running:
                raise RuntimeError(f"{log.stem} has ended; its log ends: {text[-1000:]}")
            return re.search(pattern, text)

        return str(wait_until(match, START_SECONDS, f"the start of {log.stem}, see {log}").group(1))
