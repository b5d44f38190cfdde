"""What the tests of network_lines share: a listener, and certificates."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.certificates import Certificates
from tests.unit.network_lines.running import Running
from tutorial_pkg.connectors.network_lines.listener import PortLimits
from tutorial_pkg.connectors.network_lines.tls import TlsFiles


@pytest.fixture
def start(tmp_path, free_ports) -> Iterator[Callable[..., Running]]:
    opened: list[Running] = []

    def _start(max_backlog: int = 1 << 40, tls: TlsFiles | None = None, **limits: float) -> Running:
        given = {"line_bytes": 1 << 20, "connections": 256, "idle_seconds": 300, **limits}
        opened.append(Running(tmp_path, free_ports(1), PortLimits(**given), max_backlog, tls))
        return opened[-1]

    yield _start
    for running in opened:
        running.close()


@pytest.fixture(scope="session")
def certificates(tmp_path_factory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))
