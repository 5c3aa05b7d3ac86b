"""One reader for each published benchmark."""
