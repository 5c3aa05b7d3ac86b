"""HTTP requests to services: concurrent, within rate limits, with bounded retries, over one connection pool.

scheduler     concurrent requests and retries
rate_limits   concurrency, limits per minute, outages
transport     HTTP over aiohttp                    credentials   finds API keys and redacts them
errors        classes of failures, refused parameters, maximum tokens of a request
replies       replies and their JSON               servers       tables of known servers and services
"""
