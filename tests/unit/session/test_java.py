"""Java is found through JAVA_HOME, then PATH, then the project's own folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from tutorial_pkg.session.java import Java, JavaNotFoundError, find_java, install_java


def fake_java(home: Path, release: str) -> Path:
    """Create a `java` that reports this release."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{release}\" 2025-04-15' >&2\n")
    program.chmod(0o755)
    return home


@pytest.fixture
def project(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A project folder on a machine without any Java."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_java_home_wins_over_path(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = fake_java(project / ".java" / "local", "17.0.2")
    monkeypatch.setenv("JAVA_HOME", str(project / "gone"))  # broken, so it is skipped
    assert find_java() == Java(own, "17.0.2", "the project's .java folder")
    on_path = fake_java(project / "on path", "17.0.1")
    (links := project / "links").mkdir()
    (links / "java").symlink_to(on_path / "bin" / "java")
    monkeypatch.setenv("PATH", f"{links}:/bin")
    assert find_java() == Java(on_path, "17.0.1", "PATH")
    monkeypatch.setenv("JAVA_HOME", str(fake_java(project / "chosen", "21.0.2")))
    assert find_java() == Java(project / "chosen", "21.0.2", "JAVA_HOME")


@pytest.mark.parametrize("release", ["11.0.20", "1.8.0_392", "25"])
def test_unsupported_java_is_named(
    project: Path, monkeypatch: pytest.MonkeyPatch, release: str
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(project / "old", release)))
    with pytest.raises(JavaNotFoundError, match=rf"Java {release} by JAVA_HOME"):
        find_java()


def test_java_is_installed_into_the_project(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**_: str) -> Path:
        raise OSError("no network")

    monkeypatch.setattr("cjdk.java_home", fail)
    with pytest.raises(JavaNotFoundError, match="no network"):
        install_java()
    cached = fake_java(project / "cache", "17.0.11")
    monkeypatch.setattr("cjdk.java_home", lambda **_: cached)
    assert install_java().release == "17.0.11"
    assert (project / ".java" / "cjdk").resolve() == cached
