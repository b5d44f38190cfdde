"""The formats, one folder each, and what several of them share.

- `arrow_columns`: record batches as Spark's columns.
- `store`, `store_options`, `parquet_files`: files in folders and buckets (`objects`, `delta`).
- `item_stream`: a stream of items to try a sink with.
"""
