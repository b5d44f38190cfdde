"""The README's connector of one's own does what the page says."""

from __future__ import annotations

import re
from pathlib import Path

from pyspark.sql import SparkSession

README = Path(__file__).parents[2] / "README.md"


def test_the_counter_counts_and_goes_on_after_a_restart(
    spark: SparkSession, tmp_path: Path
) -> None:
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.S)
    (example,) = [block for block in blocks if "SourceBuilder" in block]
    names = {"__name__": "readme"}
    exec(example.replace("var/", f"{tmp_path}/var/"), names)
    for wanted in (2_000, 5_000):
        writer = names["numbers"].writeStream.format("parquet")
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start(
            str(tmp_path / "out")
        )
        while sum(batch.numInputRows for batch in query.recentProgress) < wanted:
            assert query.isActive, query.exception()
            query.awaitTermination(1)
        query.stop()
    numbers = [row.number for row in spark.read.parquet(str(tmp_path / "out")).collect()]
    assert len(numbers) > 5_000
    assert sorted(numbers) == list(range(len(numbers)))
