"""HTTP requests to services: concurrent, within rate limits, with bounded retries, over one connection pool."""
