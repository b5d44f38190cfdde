"""Find the Java that Spark needs, or say what to do."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SUPPORTED = (17, 21)
REMEDY = (
    "Spark needs Java 17 or 21. Install it with `make java`, or by hand "
    "(Debian/Ubuntu: `apt-get install openjdk-17-jre-headless`; macOS: `brew install openjdk@17`; "
    "conda: `conda install openjdk=17`), then set JAVA_HOME to its folder."
)


class JavaNotFoundError(RuntimeError):
    """There is no Java 17 or 21 on this machine; the message says what to do."""


@dataclass(frozen=True)
class Java:
    """A Java on this machine: its home folder, main version and how it was found."""

    home: Path
    version: int
    found_by: str


def find_java(project: Path | None = None) -> Java:
    """The first Java 17 or 21 of `JAVA_HOME`, `PATH` and the project's own `.java` folder.

    Raises `JavaNotFoundError` that lists what was found instead.
    """
    seen = []
    for home, found_by in _candidates(project or Path.cwd()):
        version = java_version(home)
        if version in SUPPORTED:
            return Java(home, version, found_by)
        what = f"Java {version}" if version else "no working Java"
        seen.append(f"{what} by {found_by} ({home})")
    raise JavaNotFoundError(f"{REMEDY} Found: {'; '.join(seen) or 'no Java at all'}.")


def java_version(home: Path) -> int | None:
    """The main version (17, 11, 8 …) of the Java in `home`; None when it does not run."""
    try:
        answer = subprocess.run(
            [home / "bin" / "java", "-version"], capture_output=True, text=True, timeout=30
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', answer.stderr)
    return int(found.group(1)) if found else None


def _candidates(project: Path) -> Iterator[tuple[Path, str]]:
    if os.environ.get("JAVA_HOME"):
        yield Path(os.environ["JAVA_HOME"]), "JAVA_HOME"
    on_path = shutil.which("java")
    if on_path:
        # bin/java of a distribution is a link: its home is where the link ends.
        yield Path(on_path).resolve().parent.parent, "PATH"
    for java in sorted(project.glob(".java/**/bin/java")):
        yield java.parent.parent, "the project's .java folder"
