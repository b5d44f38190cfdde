"""Publishes numbered batches and notes each done, as Spark does; as a script, made to be killed.

Arguments: the directory, the file of the note, the number of the run, how many batches.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tutorial_pkg.connectors.cpu_log.publish import PublishedDirectory
from tutorial_pkg.connectors.cpu_log.query_owner import Owner

PARTITIONS, LINES = 3, 2000


def write(out: Path, done: Path, run: int, batches: int) -> None:
    directory = PublishedDirectory(out)
    owner = Owner("query-a", f"run-{run}", os.uname().nodename, 1, 0.5)
    for batch in range(last_done(done) + 1, batches):
        reports = []
        for partition in range(PARTITIONS):
            stage = directory.stage("query-a", partition)
            for line in range(LINES):
                stage.write(f"{batch}-{partition}-{line}\n".encode())
            reports += stage.finish()
        directory.commit(owner, batch, reports)
        draft = done.with_suffix(".draft")
        draft.write_text(str(batch))
        draft.replace(done)


def last_done(done: Path) -> int:
    return int(done.read_text()) if done.exists() else -1


if __name__ == "__main__":
    write(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
