"""The files of a run: database, shards, cache, manifest."""
