"""network_lines on real Spark: TLS, and one query behind several receivers.

Notebook 17 has the rest: senders with a name, and queries that restart behind a receiver.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_connector_tests.query_process import wait_until
from tests.certificates import Certificates
from tests.network_queries import HOST, start_query
from tutorial_pkg.__main__ import main
from tutorial_pkg.connectors.network_lines import network_status
from tutorial_pkg.connectors.network_lines.sender import SenderRefusedError, send_lines


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    (tmp_path / "certificates").mkdir()
    return Certificates(tmp_path / "certificates")


def write(file: Path, first: int, count: int) -> list[str]:
    lines = [f"line {number}" for number in range(first, first + count)]
    with file.open("a") as opened:
        opened.writelines(f"{line}\n" for line in lines)
    return lines


@pytest.mark.soak
def test_client_column_over_tls(spark, tmp_path, free_ports, certificates, capsys) -> None:
    port = free_ports(1)
    options = {
        "tlsCertificate": certificates.server,
        "tlsClientCa": certificates.ca,
        "allowedClients": "host-7, host-8",
        "includeMetadata": "true",
    }
    query = start_query(spark, tmp_path, port, **options)
    send_lines(HOST, port, ["from 7"], tls=certificates.client("host-7"))
    file = tmp_path / "file"
    write(file, 0, 3)
    client = certificates.issue("host-8", "host-8")
    words = ["--tls-ca", certificates.ca, "--tls-certificate", client, "--name", "host-8/file"]
    assert main(["send", str(file), "--port", str(port), *map(str, words)]) == 0
    with pytest.raises(SenderRefusedError, match=r"^not in allowedClients: host-9$"):
        send_lines(HOST, port, ["from 9"], tls=certificates.client("host-9"))
    query.processAllAvailable()
    told = "refused: 1 name (last: 127.0.0.1: not in allowedClients: host-9)"
    wait_until(lambda: told in str(network_status(tmp_path / "log")), 10, told)
    query.stop()
    found = spark.read.parquet(str(tmp_path / "out"))
    assert found.columns == ["value", "port", "received_at", "client"]
    assert sorted((row.value, row.client) for row in found.collect()) == [
        ("from 7", "host-7"),
        *((f"line {number}", "host-8") for number in range(3)),
    ]
