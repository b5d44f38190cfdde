"""The README's connector of one's own does what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

README = Path(__file__).parents[2] / "README.md"


def test_the_counter_counts_and_goes_on_after_a_restart(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.S)
    (example,) = [block for block in blocks if "SourceBuilder" in block]
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "readme"}
    exec(example, names)
    for wanted in (2_000, 5_000):
        writer = names["numbers"].writeStream.format("parquet")
        query = writer.option("checkpointLocation", "checkpoint").start(str(tmp_path / "out"))
        while sum(batch.numInputRows for batch in query.recentProgress) < wanted:
            assert query.isActive, query.exception()
            query.awaitTermination(1)
        query.stop()
    numbers = [row.number for row in spark.read.parquet(str(tmp_path / "out")).collect()]
    assert len(numbers) > 5_000
    assert sorted(numbers) == list(range(len(numbers)))
