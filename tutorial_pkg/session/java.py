"""Find the Java that Spark needs, install it, or say what to do."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pyspark import __version__ as spark_version

from tutorial_pkg.core.places import project_dir, work_dir

SUPPORTED = (17, 21)
REMEDY = (
    "Spark needs Java 17 or 21. Install it "
    "(Debian/Ubuntu: `apt-get install openjdk-17-jre-headless`; macOS: `brew install openjdk@17`; "
    "conda: `conda install openjdk=17`), then set JAVA_HOME to its folder."
)


class JavaNotFoundError(RuntimeError):
    """There is no Java 17 or 21 on this machine; the message says what to do."""


@dataclass(frozen=True)
class Java:
    """A Java on this machine: its home folder, release (17.0.15) and how it was found."""

    home: Path
    release: str
    found_by: str

    @property
    def version(self) -> int:
        """The main version: 17, 21 …; 8 for a release 1.8."""
        first, _, rest = self.release.partition(".")
        return int(rest.partition(".")[0]) if first == "1" else int(first)


def archive_path(java: Java) -> Path:
    """Where the class-data archive for this Java and this Spark is, or would be."""
    return work_dir("java") / f"spark-{spark_version}-java-{java.release}.jsa"


def archive_options(java: Java) -> list[str]:
    """What has a JVM use that archive, where there is one."""
    archive = archive_path(java)
    return [f'-XX:SharedArchiveFile="{archive}"'] if archive.is_file() else []


def find_java() -> Java:
    """The first Java 17 or 21 of `JAVA_HOME`, `PATH`, and the project's `.java` folder.

    Raises `JavaNotFoundError` that lists what was found instead.
    """
    seen = []
    for home, found_by in _candidates():
        release = java_release(home)
        if release is None:
            seen.append(f"no working Java by {found_by} ({home})")
            continue
        java = Java(home, release, found_by)
        if java.version in SUPPORTED:
            return java
        seen.append(f"Java {release} by {found_by} ({home})")
    raise JavaNotFoundError(f"{REMEDY} Found: {'; '.join(seen) or 'no Java at all'}.")


@functools.cache
def java_release(home: Path) -> str | None:
    """The release of the Java in `home`, such as 17.0.15; None when it does not run."""
    try:
        answer = subprocess.run(
            [home / "bin" / "java", "-version"], capture_output=True, text=True, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(\d+[\d._]*)', answer.stderr)
    return found.group(1) if found else None


def _candidates() -> Iterator[tuple[Path, str]]:
    if os.environ.get("JAVA_HOME"):
        yield Path(os.environ["JAVA_HOME"]), "JAVA_HOME"
    on_path = shutil.which("java")
    if on_path:
        # bin/java of a distribution is a link: its home is where the link ends.
        yield Path(on_path).resolve().parent.parent, "PATH"
    for java in sorted(project_dir().glob(".java/*/bin/java")):
        yield java.parent.parent, "the project's .java folder"


def install_java() -> Java:
    """Find Java or install it with `cjdk`.

    What that fetches stays in the user's cache; the project's `.java` folder links to it.
    Raises `JavaNotFoundError` when that fails too.
    """
    try:
        return find_java()
    except JavaNotFoundError:
        print("Java 17 is missing: installing it.")
    tried = _install_with_cjdk()
    java_release.cache_clear()
    try:
        return find_java()
    except JavaNotFoundError as error:
        raise JavaNotFoundError(f"{error} Installing it failed: {tried}") from None


def _install_with_cjdk() -> str:
    try:
        import cjdk
    except ImportError:
        return "the package cjdk is not installed."
    try:
        home = cjdk.java_home(vendor="temurin-jre", version="17")
    except (cjdk.CjdkError, OSError) as error:
        return f"cjdk says: {error}"
    link = project_dir() / ".java" / "cjdk"
    link.parent.mkdir(exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(home)
    return "cjdk installed it, but it does not run."
