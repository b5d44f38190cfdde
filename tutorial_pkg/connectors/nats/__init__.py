"""Format `nats`: streams and work queues of NATS JetStream as source and sink.

A message's way: `stream` (read by sequence numbers, in tasks) or `queue` (a durable consumer, into
a log on disk, then acknowledged) → `messages` (record batches). Back: `sink`. `client` is the
connection of them all, and waits for servers with a bound. Only `data_source` and `options` can be
imported without the extra `nats`.
"""

from tutorial_pkg.connectors.nats.data_source import NatsDataSource

__all__ = ["NatsDataSource"]
