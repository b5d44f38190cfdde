"""The formats, one folder each: anyone who follows the data walks through one folder.

Some share what is here: `arrow_columns` fits record batches to Spark's columns. `store` reads and
writes objects in folders and buckets, `store_options` has its options, and `parquet_files` reads
row groups (`objects`, `delta`). `item_stream` reads back what `cpu_log` has written.
"""
