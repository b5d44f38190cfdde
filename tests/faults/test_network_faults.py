"""What network_lines does when drivers die, disks lie and senders misbehave."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

from tests.faults.log_account import Sender
from tests.soak import few_or_many
from tutorial_pkg.durable_log.group import LogGroup
from tutorial_pkg.durable_log.segments import read_frames

LISTENING = """
import sys, time
from pathlib import Path
from tutorial_pkg.connectors.network_lines.data_source import parse_options
from tutorial_pkg.connectors.network_lines.listener import Listener
from tutorial_pkg.durable_log.group import LogGroup
directory, port = Path(sys.argv[1]), int(sys.argv[2])
logs = LogGroup(directory, [port], "port")
options = parse_options({"path": str(directory), "port": str(port)})
Listener(logs, options)
print("listening", flush=True)
time.sleep(60)
"""


@few_or_many("kills", 5, 50)
def test_killed_listeners_keep_confirmed_lines(tmp_path, free_ports, kills: int) -> None:
    """The process that writes the log, without Spark; notebook 07 kills whole drivers."""
    port = free_ports(1)
    senders = [Sender(f"sender {number}", port, reconnect=True) for number in range(3)]
    command = [sys.executable, "-c", LISTENING, str(tmp_path / "log"), str(port)]
    with ExitStack() as sending:
        for sender in senders:
            sending.enter_context(sender)
        for _ in range(kills):
            with subprocess.Popen(command, stdout=subprocess.PIPE) as listener:
                assert listener.stdout.readline() == b"listening\n"
                time.sleep(random.uniform(0, 0.2))
                listener.kill()
    LogGroup(tmp_path / "log", [port], "port").close()
    logged = _log_lines(tmp_path, port)
    assert len(set(logged)) == len(logged)
    confirmed = {line for sender in senders for line in sender.confirmed}
    assert confirmed
    assert confirmed <= set(logged)


def _log_lines(directory: Path, port: int) -> list[str]:
    """All lines that reached the log: the first segment is never full here, so it is all there."""
    segment = _segment(directory, port)
    assert int(segment.stem) == 0
    found = read_frames(segment.parent, 0, segment.stat().st_size)
    return b"".join(payload for _, payload in found).decode().splitlines()


def _segment(directory: Path, port: int) -> Path:
    [segment] = (directory / "log" / str(port)).glob("*.segment")
    return segment
