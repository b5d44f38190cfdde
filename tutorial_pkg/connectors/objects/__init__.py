"""Format `objects`: objects of S3, Google, Azure, or files, as a source and a sink.

Read in this order: `data_source` (what there is), `options`, `store` (the client). A row's way in:
`found` (which objects there are, and where each has its place), `object_log` (how that is noted),
`source`, `reading` with `columns` and `avro`. Its way out: `sink`, `writing`, `manifests`. Only
`data_source` and `options` can be imported without the extra `lake`.
"""

from tutorial_pkg.connectors.objects.data_source import ObjectsDataSource

__all__ = ["ObjectsDataSource"]
