"""Run the tests that failed in the last run again, alone.

A test that passes now depends on the order of tests or on load. Repair it. More than three failures
are not retried.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

FAILED = Path(".pytest_cache", "v", "cache", "lastfailed")
AT_MOST = 3
PYTEST = [sys.executable, "-m", "pytest", "-m", "soak or not soak", "--nbval"]
OPTIONS = ["--nbval-cell-timeout=600", "--nbval-sanitize-with", "tests/nbval_sanitize.cfg"]


def main() -> int:
    failed = json.loads(FAILED.read_text()) if FAILED.exists() else {}
    tests = sorted({whole(test) for test in failed})
    if not 0 < len(tests) <= AT_MOST:
        print(f"{len(tests)} tests or notebooks failed: none is retried")
        return 1
    print("again, alone:", *tests, sep="\n  ")
    return subprocess.run([*PYTEST, *OPTIONS, *tests], check=False).returncode


def whole(test: str) -> str:
    """A cell needs the cells before it."""
    file, _, name = test.partition("::")
    return file if file.endswith(".ipynb") or not name else test


if __name__ == "__main__":
    sys.exit(main())
