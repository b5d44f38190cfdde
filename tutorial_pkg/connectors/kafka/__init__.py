"""Format `kafka_py`: topics as source and sink, without a jar on the cluster.

A record's way: `cluster` (in the driver: partitions and offsets, which `partitions` names and
checks) → `records` (in a task: a consumer, record batches) → `data_source`. Back: `sink` (in a
task: a producer). `client` finds the library, and says how long brokers are waited for.
"""

from tutorial_pkg.connectors.kafka.data_source import KafkaDataSource

__all__ = ["KafkaDataSource"]
