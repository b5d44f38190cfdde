"""Format `delta_py`: tables of Delta Lake as a source and a sink, without a jar.

data_source  the format's class, with its help
options      its options; only these two can be imported without the extra `lake`
table        opening a table, its schema, files and log
source       the table as a batch, its versions as a stream
sink         rows to files, and one commit for each batch
"""

from tutorial_pkg.connectors.delta.data_source import DeltaDataSource

__all__ = ["DeltaDataSource"]
