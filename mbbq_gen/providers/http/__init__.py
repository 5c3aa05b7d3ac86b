"""Models behind an API: many requests at a time, within the service's limits, with bounded retries, over one pool.

scheduler     requests in, responses out; when to try again
rate_limits   how many at a time and in a minute; outages
transport     bytes to the service and back        credentials   where keys come from, and how they are hidden
errors        what a failure means, what a model refuses, the most tokens that a request can take
replies       what services send back              servers       what is known of servers and services
"""
