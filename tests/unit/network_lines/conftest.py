"""What the tests of network_lines share: a listener, and certificates."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.certificates import Certificates
from tests.unit.network_lines.running import Running


@pytest.fixture
def start(tmp_path, free_ports) -> Iterator[Callable[..., Running]]:
    """Start listeners; a file in `tmp_path` is none of the log's business."""
    opened: list[Running] = []

    def _start(**options: object) -> Running:
        opened.append(Running(tmp_path, free_ports(1), **options))
        return opened[-1]

    yield _start
    for running in opened:
        running.close()


@pytest.fixture(scope="session")
def certificates(tmp_path_factory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))
