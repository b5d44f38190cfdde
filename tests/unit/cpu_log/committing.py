"""The commit protocol on real files, without Spark.

As a script, it publishes numbered batches until it is killed. Arguments: the directory, how many.
"""

from __future__ import annotations

import sys

from tutorial_pkg.connectors.cpu_log.publish import PublishedDirectory
from tutorial_pkg.connectors.cpu_log.record import Batch, Staged, read_record
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

    def write(self, batches: int) -> None:
        """Write the batches that are not recorded, and like Spark the last one again."""
        record = read_record(self.path / "_cpu_log" / "record.json")
        for batch in range(record.done.get(QUERY, 0), batches):
            texts = ["".join(lines_of(batch, partition)) for partition in range(PARTITIONS)]
            self.add(batch, dict(enumerate(texts)))


def lines_of(batch: int, partition: int) -> list[str]:
    return [f"{batch}-{partition}-{line}\n" for line in range(LINES)]


if __name__ == "__main__":
    Log(sys.argv[1]).write(int(sys.argv[2]))
