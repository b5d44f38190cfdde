"""Run what failed in the last run once more, alone.

What passes now depends on the order of the tests or on load. That is a defect, too, but not a
reason to take the change for wrong. More than three failures are no chance.
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
        print(f"{len(tests)} tests or notebooks failed: nothing is tried again")
        return 1
    print("once more, alone:", *tests, sep="\n  ")
    return subprocess.run([*PYTEST, *OPTIONS, *tests], check=False).returncode


def whole(test: str) -> str:
    """A cell needs those before it."""
    file, _, name = test.partition("::")
    return file if file.endswith(".ipynb") or not name else test


if __name__ == "__main__":
    sys.exit(main())
