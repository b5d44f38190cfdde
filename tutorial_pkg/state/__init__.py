"""Aggregations of your own, and the rows that windows dropped as too late.

- `operation.py`: `AggregateOperation`, a class of five functions, and `broken_law`, which tests it.
- `aggregates.py`: `rolling` and `sliding` run it in Spark, with state in RocksDB.
- `late.py`: `drop_mark` and `is_late` find dropped rows.
"""

from tutorial_pkg.state.aggregates import rolling, sliding, use_rocksdb
from tutorial_pkg.state.late import drop_mark, is_late
from tutorial_pkg.state.operation import Accumulator, AggregateOperation, broken_law

__all__ = [
    "Accumulator",
    "AggregateOperation",
    "broken_law",
    "drop_mark",
    "is_late",
    "rolling",
    "sliding",
    "use_rocksdb",
]
