"""A look inside running queries: rows as they pass, batches in numbers, a sink that only logs."""

from tutorial_pkg.observe.log_rows import LogRowsSink
from tutorial_pkg.observe.metrics import QueryMetrics
from tutorial_pkg.observe.peek import Peeked, peek
from tutorial_pkg.observe.records import BatchMetrics, QueryRecord

__all__ = ["BatchMetrics", "LogRowsSink", "Peeked", "QueryMetrics", "QueryRecord", "peek"]
