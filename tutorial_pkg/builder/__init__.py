"""Connectors from a few functions: `SourceBuilder`, `SinkBuilder`.

Which builder, which guarantee, which positions are safe: docs/builder.md. The files:

- `source_builder`, `sink_builder`: what users write; `declaration`: the classes that Spark gets
- `stream_source`, `pushed`: streams through a log, by `instances`, `rows` and `frames`; `status`
- `replayable_source`, `cursor_source`, `dbapi_sink`: one kind of source or sink each
- `functions`: how they are checked, called, retried and pickled; `context`: what they get
"""

import types

from tutorial_pkg.builder.context import DEAD_LETTERS as DEAD_LETTERS
from tutorial_pkg.builder.context import FAIL_ON_DATA_LOSS as FAIL_ON_DATA_LOSS
from tutorial_pkg.builder.context import BatchContext as BatchContext
from tutorial_pkg.builder.context import ListenContext as ListenContext
from tutorial_pkg.builder.context import Position as Position
from tutorial_pkg.builder.context import SinkContext as SinkContext
from tutorial_pkg.builder.context import SourceContext as SourceContext
from tutorial_pkg.builder.context import Split as Split
from tutorial_pkg.builder.context import SplitContext as SplitContext
from tutorial_pkg.builder.context import TargetContext as TargetContext
from tutorial_pkg.builder.cursor_source import CursorSourceBuilder as CursorSourceBuilder
from tutorial_pkg.builder.declaration import Format as Format
from tutorial_pkg.builder.functions import FunctionError as FunctionError
from tutorial_pkg.builder.functions import Retries as Retries
from tutorial_pkg.builder.replayable_source import LIMIT as LIMIT
from tutorial_pkg.builder.replayable_source import PARALLELISM as PARALLELISM
from tutorial_pkg.builder.replayable_source import (
    ReplayableSourceBuilder as ReplayableSourceBuilder,
)
from tutorial_pkg.builder.rows import Buffer as Buffer
from tutorial_pkg.builder.rows import RowPacker as RowPacker
from tutorial_pkg.builder.sink_builder import SinkBuilder as SinkBuilder
from tutorial_pkg.builder.source_builder import SourceBuilder as SourceBuilder
from tutorial_pkg.builder.status import BuilderStatus as BuilderStatus
from tutorial_pkg.builder.status import InstanceStatus as InstanceStatus
from tutorial_pkg.builder.status import builder_status as builder_status
from tutorial_pkg.builder.stream_source import BatchSourceBuilder as BatchSourceBuilder
from tutorial_pkg.builder.stream_source import StreamSourceBuilder as StreamSourceBuilder
from tutorial_pkg.core.filters import Comparison as Comparison
from tutorial_pkg.core.options import REQUIRED as REQUIRED
from tutorial_pkg.core.options import Option as Option
from tutorial_pkg.core.options import Options as Options
from tutorial_pkg.core.options import OptionValues as OptionValues
from tutorial_pkg.core.options import accepts as accepts
from tutorial_pkg.core.options import boolean as boolean
from tutorial_pkg.core.options import choice as choice
from tutorial_pkg.core.options import documented as documented
from tutorial_pkg.core.options import integer as integer
from tutorial_pkg.core.options import local_directory as local_directory
from tutorial_pkg.core.options import names as names
from tutorial_pkg.core.options import not_empty as not_empty
from tutorial_pkg.core.options import secret as secret
from tutorial_pkg.core.secrets import Secret as Secret

__all__ = sorted(
    name
    for name, value in globals().items()
    if not name.startswith("_") and not isinstance(value, types.ModuleType)
)
