"""Format `nats`: streams and work queues of NATS JetStream as a source and a sink.

- `data_source.py`: the format. `options.py`: its options. Both work without the extra `nats`.
- `client.py`: a connection that is opened again when it breaks.
- `messages.py`: fetches messages in bulk, as record batches, with their places in the stream.
- `stream.py`: reads by sequence numbers, in tasks.
- `queue.py`: reads a durable consumer into a log, then acknowledges.
- `sink.py`: rows as messages with ids, published in bulk.
"""

from tutorial_pkg.connectors.nats.data_source import NatsDataSource

__all__ = ["NatsDataSource"]
