"""Format `kafka_py`: topics as source and sink, without a jar on the cluster.

A record's way: `cluster` (in the driver: `partitions` and their offsets) → `source` (splits, and
how far each goes) → `records` (in a task: a consumer, record batches). Back: `sink` (in a task: a
producer). `client` has the settings, and says how long to wait for brokers. Only `data_source` and
`options` can be imported without the extra `kafka`.
"""

from tutorial_pkg.connectors.kafka.data_source import KafkaDataSource

__all__ = ["KafkaDataSource"]
