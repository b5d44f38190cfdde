"""State that lasts: aggregate operations of your own, and rows that came too late.

`AggregateOperation` is a plain class of five functions; `broken_law` tests it; `rolling` and
`sliding` run it in Spark, with their state in RocksDB. `drop_mark` and `is_late` find the rows that
windows have dropped. Notebooks 18 and 19 show them at work.
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
