"""Format `objects`: objects of S3, Google, Azure, or folders, as a source and a sink.

data_source  the format's class, with its help
options      its options; only these two can be imported without the extra `lake`
source       what a stream and a batch read: shares of objects
tape         which objects a stream has found, in which order
object_log   records in a store: the tape's, and the sink's manifests
reading      the bytes of an object to rows
avro         Avro's schemas and values
sink         rows to objects, and a manifest for each batch
writing      rows to the bytes of an object

The client of the store is in `connectors/store.py`.
"""

from tutorial_pkg.connectors.objects.data_source import ObjectsDataSource

__all__ = ["ObjectsDataSource"]
