"""The format network_lines on real Spark, with real sockets."""

from __future__ import annotations

import socket
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tests.network_queries import (
    HOST,
    network_lines,
    start_query,
    to_parquet,
)
from tests.since import since_4_2
from tutorial_pkg.connectors.network_lines import NetworkLinesDataSource
from tutorial_pkg.connectors.network_lines.data_source import NetworkLinesReader
from tutorial_pkg.connectors.network_lines.sender import send_lines
from tutorial_pkg.core.spark_versions import HAS_LIMITS, ReadAllAvailable


def reader(directory: Path, port: int, **options: object) -> NetworkLinesReader:
    """A reader as Spark's own process makes it."""
    given = {"path": str(directory / "log"), "port": str(port)}
    source = NetworkLinesDataSource(given | {name: str(value) for name, value in options.items()})
    return source.streamReader(schema=None)


def test_metadata_and_event_time(spark, tmp_path, free_ports) -> None:
    port = free_ports(2)
    options = {"parallelism": 2, "includeMetadata": "true", "eventTime": "millis_prefix"}
    query = start_query(spark, tmp_path, port, **options)
    before = datetime.now()
    send_lines(HOST, port, ["1583309377078,a", "none"])
    send_lines(HOST, port + 1, ["0,b"])
    query.processAllAvailable()
    if HAS_LIMITS:  # the source reports its lag
        [source] = query.lastProgress["sources"]
        assert source["latestOffset"] == source["endOffset"]
    query.stop()
    found = spark.read.parquet(str(tmp_path / "out"))
    assert found.dtypes == [
        ("value", "string"),
        ("port", "int"),
        ("received_at", "timestamp"),
        ("client", "string"),
        ("event_time", "timestamp"),
    ]
    late = found.selectExpr("value", "port", "cast(event_time as string) as time").collect()
    assert sorted(map(tuple, late)) == [
        ("0,b", port + 1, "1970-01-01 00:00:00"),
        ("1583309377078,a", port, "2020-03-04 08:09:37.078"),
        ("none", port, None),
    ]
    for row in found.collect():
        assert abs(row.received_at - before) < timedelta(minutes=1)


@since_4_2
def test_available_now_opens_no_port(spark, tmp_path, free_ports) -> None:
    port = free_ports(1)
    with socket.create_server((HOST, port)):
        lines = network_lines(spark, tmp_path, port)
        query = to_parquet(lines, tmp_path).trigger(availableNow=True).start()
        assert query.awaitTermination(120)
        assert query.exception() is None


@pytest.mark.parametrize(
    "options",
    [
        {"parallelism": "65"},
        {"host": "*"},
        {"host": "127.0.0.1 "},
        {"tlsCertificate": "/none"},
        {"allowedClients": "a,"},
        {"port": "65535", "parallelism": "2"},
        {"tlsClientCa": __file__},
        {"allowedClients": "a"},
        {"tlsCertificate": __file__},
    ],
)
def test_wrong_option_is_named(options: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=f"`{[*options][-1]}`"):
        NetworkLinesDataSource({"path": "log", **options}).schema()


@pytest.mark.parametrize("host", ["::1", "[::1]", "localhost"])
def test_hosts(tmp_path, free_ports, host: str) -> None:
    port = free_ports(1)
    there = reader(tmp_path, port, host=host)
    there.latestOffset(there.initialOffset(), ReadAllAvailable())
    assert send_lines(host.strip("[]"), port, ["a"]) == 1
    there.stop()
