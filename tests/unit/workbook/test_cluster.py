"""What the command `cluster` says; real clusters are in `tests/cluster`."""

from __future__ import annotations

from typing import Any

import pytest

from workbook import cluster


class Dying:
    """Its daemons, each time one looks."""

    def __init__(self, *looks: str) -> None:
        self._looks = iter(looks)

    @property
    def running(self) -> list[str]:
        return next(self._looks).split()


@pytest.mark.parametrize(
    ("looks", "said"),
    [
        (("master worker-1 worker-2", "master worker-2", "master"), "worker-1 worker-2"),
        (("master worker-1", "master worker-1", "worker-1"), "master"),
    ],
)
def test_what_ends_is_named_until_no_query_can_run(
    looks: tuple[str, ...],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(cluster, "LOOK_SECONDS", 0)
    dying: Any = Dying(*looks)
    cluster.watch(dying)
    assert capsys.readouterr().out == "".join(f"{name} has ended\n" for name in said.split())
