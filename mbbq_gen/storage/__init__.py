"""The SQLite database of a run, its Parquet files, and the response cache."""
