"""A program that logs 1,000 numbered lines a second, and rotates its log while it does.

Arguments: the log, `rename` or `copytruncate`, seconds between rotations, seconds in all.
Prints how many lines it wrote, and how often it rotated.
"""

import os
import shutil
import sys
import threading
import time
from pathlib import Path

LINES_A_TICK, TICK = 10, 0.01


class Log:
    """Its file stays open, as that of most programs."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.written = self.rotations = 0
        self._file = path.open("ab", buffering=0)

    def write(self) -> None:
        last = self.written + LINES_A_TICK
        self._file.write(b"".join(b"line %d\n" % number for number in range(self.written, last)))
        self.written = last

    def rename(self) -> None:
        """As logrotate does: what is written before there is a new file goes to the old one."""
        self.rotations += 1
        self.path.rename(f"{self.path}.{self.rotations}")
        self.write()
        self._file = self.path.open("ab", buffering=0)

    def copytruncate(self) -> None:
        self.rotations += 1
        shutil.copyfile(self.path, f"{self.path}.{self.rotations}")
        os.truncate(self.path, 0)


def write_until(log: Log, end: float) -> None:
    while time.monotonic() < end:
        log.write()
        time.sleep(TICK)


def main() -> None:
    path, kind, every, seconds = sys.argv[1:]
    log, end = Log(Path(path)), time.monotonic() + float(seconds)
    if kind == "copytruncate":  # beside the writer, who does not know of it
        writer = threading.Thread(target=write_until, args=(log, end))
        writer.start()
    while time.monotonic() + float(every) < end:
        if kind == "rename":
            write_until(log, time.monotonic() + float(every))
            log.rename()
        else:
            time.sleep(float(every))
            log.copytruncate()
    if kind == "copytruncate":
        writer.join()
    print(log.written, log.rotations)


main()
