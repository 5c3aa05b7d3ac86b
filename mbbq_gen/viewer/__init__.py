"""All items of one run in a browser: a server for this machine only, that reads and never writes."""
