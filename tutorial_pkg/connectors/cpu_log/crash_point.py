"""Points where a fault drill can have a commit stand still, to be killed there."""

from __future__ import annotations

import os
import signal
from pathlib import Path

CRASH_AT = "TUTORIAL_PKG_CRASH_AT"  # an environment variable: `<point>@<file to make on arrival>`


def crash_point(point: str) -> None:
    """If a fault drill says so: report that we are here, and go no further until we are killed."""
    wanted, _, marker = os.environ.get(CRASH_AT, "").partition("@")
    if wanted == point:
        Path(marker).touch()
        signal.pause()
        os.kill(os.getpid(), signal.SIGKILL)
