"""Find the Java that Spark needs, install it, or say what to do."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pyspark import __version__ as spark_version

from tutorial_pkg.core.places import project_dir, work_dir

SUPPORTED = ("17", "21")
REMEDY = (
    "Spark needs Java 17 or 21. Install it (Debian/Ubuntu: `apt-get install "
    "openjdk-17-jre-headless`; macOS: `brew install openjdk@17`; conda: `conda install "
    "openjdk=17`), then set JAVA_HOME to its folder."
)


class JavaNotFoundError(RuntimeError):
    """This machine has no Java 17 or 21; the message says what to do."""


@dataclass(frozen=True)
class Java:
    """A Java on this machine: its home folder, its release (17.0.15), and how it was found."""

    home: Path
    release: str
    found_by: str


def archive_path(java: Java) -> Path:
    return work_dir("java") / f"spark-{spark_version}-java-{java.release}.jsa"


def archive_options(java: Java) -> list[str]:
    """Return the JVM option that uses the archive, if there is one."""
    archive = archive_path(java)
    return [f'-XX:SharedArchiveFile="{archive}"'] if archive.is_file() else []


def find_java() -> Java:
    """Return the first Java 17 or 21 in `JAVA_HOME`, `PATH` or the project's `.java` folder.

    Raises:
        JavaNotFoundError: there is none; the message lists the others.
    """
    rejected = []
    for home, found_by in _candidates():
        release = java_release(home)
        if release and release.split(".")[0] in SUPPORTED:
            return Java(home, release, found_by)
        rejected.append(f"Java {release or 'that does not run'} by {found_by} ({home})")
    raise JavaNotFoundError(f"{REMEDY} Found: {'; '.join(rejected) or 'no Java at all'}.")


def java_release(home: Path) -> str | None:
    """Return the release of the Java in `home`, such as 17.0.15, or None if it does not run."""
    command = [str(home / "bin" / "java"), "-version"]
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    release = re.search(r'version "(\d+[\d._]*)', result.stderr)
    return release.group(1) if release else None


def _candidates() -> Iterator[tuple[Path, str]]:
    if os.environ.get("JAVA_HOME"):
        yield Path(os.environ["JAVA_HOME"]), "JAVA_HOME"
    if on_path := shutil.which("java"):
        # A distribution's bin/java is a link, and Java's home is where the link ends.
        yield Path(on_path).resolve().parent.parent, "PATH"
    for java in sorted(project_dir().glob(".java/*/bin/java")):
        yield java.parent.parent, "the project's .java folder"


def install_java() -> Java:
    """Find Java, or install it with `cjdk` into the user's cache, linked from `.java`."""
    try:
        return find_java()
    except JavaNotFoundError:
        print("Java 17 is missing: installing it.")
    try:
        import cjdk

        home = cjdk.java_home(vendor="temurin-jre", version="17")
    except Exception as error:  # the package, the network, the archive
        raise JavaNotFoundError(f"{REMEDY} Installing it failed: {error}") from None
    link = project_dir() / ".java" / "cjdk"
    link.parent.mkdir(exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(home)
    return find_java()
