"""Format `delta_py`: tables of Delta Lake as a source and a sink, without a jar.

Read in this order: `data_source` (what there is), `options`, `table` (opening one, its schema, its
log). A row's way in: `source`; its way out: `sink`. Only `data_source` and `options` can be
imported without the extra `lake`.
"""

from tutorial_pkg.connectors.delta.data_source import DeltaDataSource

__all__ = ["DeltaDataSource"]
