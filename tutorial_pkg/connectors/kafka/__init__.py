"""Format `kafka_py`: topics as a source and a sink, without a jar on the cluster.

- `data_source.py`: the format. `options.py`: its options. Both work without the extra `kafka`.
- `client.py`: settings of the client library, and what its errors mean.
- `source.py`: `look` (partitions, ids and offsets, in the driver) and `read` (in a task).
- `records.py`: a task's consumer, from one offset to another, as record batches.
- `sink.py`: a task's producer.
"""

from tutorial_pkg.connectors.kafka.data_source import KafkaDataSource

__all__ = ["KafkaDataSource"]
