"""Connectors from a few functions: `SourceBuilder`, `SinkBuilder`.

Read in this order: `source_builder` and `sink_builder` (what users write), `stream_source`
(`instances`, `instance`, `buffer`, `rows`, `frames`, `snapshots`, `status`: a row's way into the
log), `replayable_source` (with `splits`), `batch_source`. `declaration`, `functions` and `context`
are what all of them share.
"""

from tutorial_pkg.builder.buffer import Buffer
from tutorial_pkg.builder.context import BatchContext, SinkContext, SourceContext, SplitContext
from tutorial_pkg.builder.functions import FunctionError
from tutorial_pkg.builder.sink_builder import SinkBuilder
from tutorial_pkg.builder.source_builder import SourceBuilder
from tutorial_pkg.builder.status import BuilderStatus, InstanceStatus, builder_status
from tutorial_pkg.core.options import (
    REQUIRED,
    boolean,
    choice,
    integer,
    local_directory,
    not_empty,
)

__all__ = [
    "REQUIRED",
    "BatchContext",
    "Buffer",
    "BuilderStatus",
    "FunctionError",
    "InstanceStatus",
    "SinkBuilder",
    "SinkContext",
    "SourceBuilder",
    "SourceContext",
    "SplitContext",
    "boolean",
    "builder_status",
    "choice",
    "integer",
    "local_directory",
    "not_empty",
]
