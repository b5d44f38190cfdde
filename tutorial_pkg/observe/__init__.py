"""A look inside running queries.

- `peek.py`: `peek` shows rows of a stage as they pass.
- `metrics.py`: `QueryMetrics` keeps the batches of every query; `records.py` has their numbers.
- `prometheus.py`: the same for Prometheus.
- `log_rows.py`: a sink that only logs.
"""

from tutorial_pkg.observe.log_rows import LogRowsSink
from tutorial_pkg.observe.metrics import QueryMetrics
from tutorial_pkg.observe.peek import Peeked, peek
from tutorial_pkg.observe.records import BatchMetrics, QueryRecord

__all__ = ["BatchMetrics", "LogRowsSink", "Peeked", "QueryMetrics", "QueryRecord", "peek"]
