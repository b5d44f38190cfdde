"""Marks tests of what only newer versions of Spark can do."""

from __future__ import annotations

import pytest

from tutorial_pkg.core.spark_versions import HAS_ARROW_STREAMS, HAS_LIMITS

since_4_2 = pytest.mark.skipif(
    not HAS_LIMITS, reason="before Spark 4.2 a source learns of no trigger, and reports no lag"
)
since_4_1 = pytest.mark.skipif(
    not HAS_ARROW_STREAMS, reason="before Spark 4.1 a source learns of no filters"
)
