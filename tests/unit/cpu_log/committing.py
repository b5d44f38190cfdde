"""The commit protocol on real files, without Spark.

As a script, it publishes numbered batches and records each as done, as Spark does, until it is
killed. Arguments: the directory, the file of the last batch, how many batches.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tutorial_pkg.connectors.cpu_log.publish import PublishedDirectory
from tutorial_pkg.connectors.cpu_log.record import Batch, Staged
from tutorial_pkg.connectors.cpu_log.sink import Stage

QUERY, OTHER = "query-a", "query-b"
PARTITIONS, LINES = 3, 2000


class Log(PublishedDirectory):
    def stage(self, query: str = QUERY, partition: int = 0) -> Stage:
        return Stage(self, query, partition)

    def staged(self, texts: dict[int, str], query: str = QUERY) -> list[Staged]:
        """Stage a text for each partition."""
        files: list[Staged] = []
        for partition, text in texts.items():
            stage = self.stage(query, partition)
            stage.write(text.encode())
            files += stage.finish()
        return files

    def add(
        self,
        number: int | None,
        texts: dict[int, str],
        query: str = QUERY,
        run: str = "run",
        plan: str | None = None,
    ) -> bool:
        """Stage and commit a batch. Return whether it was published."""
        return self.commit(Batch(query, run, number, plan), self.staged(texts, query))

    def visible(self) -> dict[str, str]:
        """Return what readers see, by the part of the name that the star in `data.*.csv` is for."""
        return {file.name[5:-4]: file.read_text() for file in sorted(self.path.glob("data.*.csv"))}

    def orphans(self) -> list[str]:
        return sorted(file.name for file in (self.path / "_cpu_log" / "staged").iterdir())


def write(out: Path, done: Path, batches: int) -> None:
    log = Log(out)
    for batch in range(last_done(done) + 1, batches):
        staged = []
        for partition in range(PARTITIONS):
            stage = log.stage(partition=partition)
            for line in range(LINES):
                stage.write(f"{batch}-{partition}-{line}\n".encode())
            staged += stage.finish()
        log.commit(Batch(QUERY, "run", batch), staged)
        draft = done.with_suffix(".draft")
        draft.write_text(str(batch))
        draft.replace(done)


def last_done(done: Path) -> int:
    return int(done.read_text()) if done.exists() else -1


if __name__ == "__main__":
    write(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
