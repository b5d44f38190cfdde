"""The log on disk that makes a stream replayable: it survives `kill -9` and a power failure.

Read the files in this order:

- `segments`: one log, checksummed frames in segment files.
- `group`: numbered logs in one folder, and offsets over them.
- `reader`: Spark's stream reader over a group.
- `handover`: a log that one process writes and another reads.
- `lock`: one writing process.
- `status`: how the logs are doing, for anyone to read.
"""
