"""Connectors from a few functions: `SourceBuilder`, `SinkBuilder`.

Which builder, which guarantee, which positions are safe: docs/builder.md. The files:

- `source_builder`, `sink_builder`: what users write
- `stream_source`: streams through a log, and batches; `instances` calls `fill`, through `rows` and
  `frames` into the log, with `status` beside it
- `pushed`: streams from clients that call back
- `replayable_source`: offsets of what can be asked for again
- `cursor_source`: pages, through a log or without one
- `dbapi_sink`: the commit of sinks for databases
- `declaration`: functions and options as they are declared, and the classes that Spark gets;
  `Format` puts several sources and a sink under one name
- `functions`: how they are checked, called, retried and pickled
- `context`: what functions learn about their query
"""

from tutorial_pkg.builder.context import (
    DEAD_LETTERS,
    FAIL_ON_DATA_LOSS,
    BatchContext,
    ListenContext,
    Position,
    SinkContext,
    SourceContext,
    Split,
    SplitContext,
    TargetContext,
)
from tutorial_pkg.builder.cursor_source import CursorSourceBuilder
from tutorial_pkg.builder.declaration import Format
from tutorial_pkg.builder.functions import FunctionError, Retries
from tutorial_pkg.builder.replayable_source import LIMIT, PARALLELISM, ReplayableSourceBuilder
from tutorial_pkg.builder.rows import Buffer, RowPacker
from tutorial_pkg.builder.sink_builder import SinkBuilder
from tutorial_pkg.builder.source_builder import SourceBuilder
from tutorial_pkg.builder.status import BuilderStatus, InstanceStatus, builder_status
from tutorial_pkg.builder.stream_source import BatchSourceBuilder, StreamSourceBuilder
from tutorial_pkg.core.filters import Comparison
from tutorial_pkg.core.options import (
    REQUIRED,
    Option,
    Options,
    OptionValues,
    accepts,
    boolean,
    choice,
    documented,
    integer,
    local_directory,
    names,
    not_empty,
    secret,
)
from tutorial_pkg.core.secrets import Secret

__all__ = [
    "DEAD_LETTERS",
    "FAIL_ON_DATA_LOSS",
    "LIMIT",
    "PARALLELISM",
    "REQUIRED",
    "BatchContext",
    "BatchSourceBuilder",
    "Buffer",
    "BuilderStatus",
    "Comparison",
    "CursorSourceBuilder",
    "Format",
    "FunctionError",
    "InstanceStatus",
    "ListenContext",
    "Option",
    "OptionValues",
    "Options",
    "Position",
    "ReplayableSourceBuilder",
    "Retries",
    "RowPacker",
    "Secret",
    "SinkBuilder",
    "SinkContext",
    "SourceBuilder",
    "SourceContext",
    "Split",
    "SplitContext",
    "StreamSourceBuilder",
    "TargetContext",
    "accepts",
    "boolean",
    "builder_status",
    "choice",
    "documented",
    "integer",
    "local_directory",
    "names",
    "not_empty",
    "secret",
]
