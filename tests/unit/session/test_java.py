"""Java is found by JAVA_HOME, then PATH, then the project's own; an old one is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tutorial_pkg.session import java
from tutorial_pkg.session.java import Java, JavaNotFoundError, find_java, install_java


def fake_java(home: Path, release: str) -> Path:
    """A `java` that answers `-version` as that release does."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{release}\" 2025-04-15' >&2\n")
    program.chmod(0o755)
    return home


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine without any Java; the folder is the project."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/bin-of-nobody")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_java_home_comes_before_path(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(nowhere / "chosen one", "21.0.2")))
    monkeypatch.setenv("PATH", str(fake_java(nowhere / "other", "17.0.1") / "bin") + ":/bin")
    assert find_java() == Java(nowhere / "chosen one", "21.0.2", "JAVA_HOME")


def test_path_comes_before_the_project_and_links_are_followed(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = fake_java(nowhere / "real", "17.0.9")
    fake_java(nowhere / ".java" / "local", "21.0.1")
    links = nowhere / "links"
    links.mkdir()
    (links / "java").symlink_to(real / "bin" / "java")
    monkeypatch.setenv("PATH", f"{links}:/bin")
    assert find_java() == Java(real, "17.0.9", "PATH")


def test_the_projects_own_java_is_found(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/bin-of-nobody")
    home = fake_java(nowhere / ".java" / "local", "17.0.2")
    assert find_java() == Java(home, "17.0.2", "the project's .java folder")


def test_no_java_at_all_says_what_to_install(nowhere: Path) -> None:
    with pytest.raises(JavaNotFoundError) as error:
        find_java()
    assert str(error.value).startswith("Spark needs Java 17 or 21. Install it (Debian/Ubuntu:")
    assert str(error.value).endswith("Found: no Java at all.")


@pytest.mark.parametrize(("release", "version"), [("11.0.20", 11), ("1.8.0_392", 8), ("25", 25)])
def test_another_java_is_named_and_refused(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch, release: str, version: int
) -> None:
    home = fake_java(nowhere / "old", release)
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert Java(home, release, "").version == version
    with pytest.raises(JavaNotFoundError, match=rf"Found: Java {release} by JAVA_HOME \(.*old\)"):
        find_java()


def test_a_java_that_does_not_run_is_passed_over(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(nowhere / "gone"))
    home = fake_java(nowhere / ".java" / "local", "17.0.2")
    assert find_java().home == home


def test_a_failed_installation_ends_in_one_clear_message(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(java, "_install_with_cjdk", lambda: "cjdk says: no network")
    with pytest.raises(JavaNotFoundError, match="Installing it failed: cjdk says: no network"):
        install_java()


def test_what_cjdk_installs_is_linked_into_the_project(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cached = fake_java(nowhere / "cache", "17.0.11")
    monkeypatch.setattr("cjdk.java_home", lambda **_: cached)
    assert install_java().release == "17.0.11"
    assert (nowhere / ".java" / "cjdk").resolve() == cached
