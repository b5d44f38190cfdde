"""Files replaced in one step, missing extras, free ports, and the order of a sink's batches."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from tutorial_pkg.core.batch_order import is_repeated
from tutorial_pkg.core.disk import replace_file
from tutorial_pkg.core.extras import extra
from tutorial_pkg.core.ports import is_free


def test_full_disk_keeps_the_old_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    file = tmp_path / "id"
    replace_file(file, "old")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=f"No space left on device: '{file}'"):
        replace_file(file, "new")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]
    assert file.stat().st_mode & 0o007 == 0


def test_error_names_the_extra() -> None:
    text = r"no_such_package.*tutorial_pkg\[metrics\]"
    with pytest.raises(ImportError, match=text), extra("metrics"):
        import no_such_package  # noqa: F401


def test_port_with_a_listener_is_busy(free_ports: Callable[[int], int]) -> None:
    assert is_free(free_ports(1))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        assert not is_free(listener.getsockname()[1])


@pytest.mark.parametrize(
    ("batch", "last", "repeated"), [(0, None, False), (7, 6, False), (9, 6, False), (6, 6, True)]
)
def test_batch_is_new_or_repeated(batch: int, last: int | None, repeated: bool) -> None:
    assert is_repeated("table `t`", batch, last) is repeated


@pytest.mark.parametrize(("batch", "same"), [(5, True), (6, False)])
def test_set_back_checkpoint_is_an_error(batch: int, same: bool) -> None:
    with pytest.raises(ValueError, match="table `t` already has this query's batches up to 6"):
        is_repeated("table `t`", batch, 6, same)
