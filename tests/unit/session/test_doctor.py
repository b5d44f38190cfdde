"""The doctor: a line for each thing, the remedy where something is wrong, and an exit code."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tutorial_pkg.__main__ import main
from tutorial_pkg.session import doctor


def test_a_healthy_machine_gets_ticks_and_exit_code_0(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "PORTS", range(0, 1))  # port 0 is always free
    assert main(["doctor", "--quick"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line[0] for line in lines] == ["✓"] * 6
    assert lines[1].startswith("✓ Java ")


def test_a_busy_port_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr(doctor, "PORTS", range(port, port + 1))
        assert main(["doctor", "--quick"]) == 1
    assert f"✗ ports: {port} in use, perhaps by another notebook" in capsys.readouterr().out


def test_without_java_the_remedy_is_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", "/bin-of-nobody")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    assert main(["doctor", "--quick"]) == 1
    assert "✗ Java: Spark needs Java 17 or 21. Install it" in capsys.readouterr().out


def test_a_folder_that_cannot_be_written_is_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / ".work").write_text("a file where a folder should be")
    monkeypatch.chdir(tmp_path)
    assert main(["doctor", "--quick"]) == 1
    assert "✗ disk: cannot write to .work (File exists)" in capsys.readouterr().out


def test_a_package_of_a_wrong_version_is_told() -> None:
    with pytest.raises(doctor.CheckFailed, match=r"pandas 2\S+: 1 or later, below 2 is needed"):
        doctor._package("pandas", "1", below="2")()
    with pytest.raises(doctor.CheckFailed, match="no-such-package is not installed"):
        doctor._package("no-such-package", "1")()
