"""RELP with the real rsyslogd: its messages are in the log, and on disk before the reply."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from spark_connector_tests.query_process import wait_until
from tests.network_queries import network_lines, rows, to_parquet
from tests.receivers import ReceiverProcess
from tests.services.rsyslog import Rsyslog, rsyslogd
from tutorial_pkg.connectors.network_lines import network_status

try:
    rsyslogd()
except FileNotFoundError as missing:
    pytest.skip(str(missing), allow_module_level=True)

# Priority, time, host, tag and message, as the format's page takes them apart.
PAGE = Path(__file__).parents[2] / "docs/formats/network_lines.md"
SYSLOG = re.compile(re.search(r'fields = r"(.+)"', PAGE.read_text())[1])
SECONDS = 120


def messages(spark, folder: Path, port: int) -> Counter[str]:
    """Run a query once more, and count each message in its output."""
    lines = network_lines(spark, folder, port)
    query = to_parquet(lines, folder).trigger(availableNow=True).start()
    assert query.awaitTermination(SECONDS)
    found = map(SYSLOG.fullmatch, rows(spark, folder))
    return Counter(match[5] for match in found)


def received(folder: Path, port: int) -> int:
    return network_status(folder / "log").ports[port].lines


def test_killed_receiver_loses_nothing(spark, tmp_path, free_ports) -> None:
    """RELP is at least once: messages that were stored without a reply are there twice."""
    port = free_ports(1)
    lines = [f"line {number}" for number in range(3_000)]
    receiver = ReceiverProcess(tmp_path / "log", port, "--protocol", "relp")
    with Rsyslog(tmp_path / "rsyslog", port) as sender:
        sender.write(lines)
        for part in (200, 400):
            with receiver:
                wait_until(lambda: received(tmp_path, port) >= part, SECONDS, "a part")  # noqa: B023
                receiver.kill()
        with receiver:
            wait_until(
                lambda: set(lines) <= messages(spark, tmp_path, port).keys(), SECONDS, "all lines"
            )
    found = messages(spark, tmp_path, port)
    assert found.keys() == set(lines)
    assert max(found.values()) <= 3
