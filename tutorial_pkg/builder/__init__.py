"""Connectors from a few functions: `SourceBuilder`, `SinkBuilder`.

What users call is at the top: `help(SourceBuilder)`, `help(StreamSourceBuilder)` (its `.fill`,
`.snapshot` and so on), `help(SinkBuilder)`.

Read the files in this order: `source_builder` and `sink_builder` (what users write),
`stream_source` (`instances`, `instance`, `buffer`, `rows`, `frames`, `snapshots`, `status`: a row's
way into the log), `replayable_source` (with `splits`), `cursor_source` (with `pages`),
`batch_source`; `format` puts several under one name. `declaration` (how functions are given),
`built` (what Spark gets), `functions`, `retries` and `context` are what all of them share.
"""

from tutorial_pkg.builder.batch_source import BatchSourceBuilder
from tutorial_pkg.builder.buffer import Buffer
from tutorial_pkg.builder.context import (
    FAIL_ON_DATA_LOSS,
    BatchContext,
    Position,
    SinkContext,
    SourceContext,
    Split,
    SplitContext,
    TargetContext,
)
from tutorial_pkg.builder.cursor_source import CursorSourceBuilder
from tutorial_pkg.builder.format import Format
from tutorial_pkg.builder.functions import FunctionError
from tutorial_pkg.builder.replayable_source import LIMIT, PARALLELISM, ReplayableSourceBuilder
from tutorial_pkg.builder.rows import RowPacker
from tutorial_pkg.builder.sink_builder import SinkBuilder
from tutorial_pkg.builder.source_builder import SourceBuilder
from tutorial_pkg.builder.status import BuilderStatus, InstanceStatus, builder_status
from tutorial_pkg.builder.stream_source import StreamSourceBuilder
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
    "FAIL_ON_DATA_LOSS",
    "LIMIT",
    "PARALLELISM",
    "REQUIRED",
    "BatchContext",
    "BatchSourceBuilder",
    "Buffer",
    "BuilderStatus",
    "CursorSourceBuilder",
    "Format",
    "FunctionError",
    "InstanceStatus",
    "Option",
    "OptionValues",
    "Options",
    "Position",
    "ReplayableSourceBuilder",
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
