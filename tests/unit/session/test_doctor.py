"""The doctor: one line per check, the fix where something is wrong, and an exit code."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tutorial_pkg.session import doctor


def test_healthy_machine_gets_ticks(capsys: pytest.CaptureFixture[str]) -> None:
    assert doctor.examine(quick=True) == 0
    assert [line[0] for line in capsys.readouterr().out.splitlines()] == ["✓"] * 5


def test_busy_port_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        monkeypatch.setattr(doctor, "PORTS", range(port, port + 1))
        assert f"ports: {port} in use" in doctor.check_ports()


def test_missing_java_comes_with_the_fix(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", "/bin-of-nobody")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    assert doctor.examine(quick=True) == 1
    assert "✗ java: Spark needs Java 17 or 21. Install it" in capsys.readouterr().out


def test_unwritable_folder_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / ".work").write_text("a file where a folder should be")
    monkeypatch.chdir(tmp_path)
    assert doctor.examine(quick=True) == 1
    assert "✗ disk: " in capsys.readouterr().out


def test_old_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "LOWEST", {"pyarrow": (999, 0)})
    with pytest.raises(RuntimeError, match=r"pyarrow is \S+, expected 999.0 or later"):
        doctor.check_packages()
