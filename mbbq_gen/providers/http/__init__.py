"""Models behind an API: many requests at a time, within the service's limits, with bounded retries, over one pool.

options      what a user may choose            credentials  where keys come from
transport    bytes to the service and back     faults       what a failure means: wait, learn, give up, stop
retry        when to try again                 pace         how much at a time and a minute
learned      parameters that a model refuses   asking       requests in, responses out
bounds       the most that a request can take  masking      keys taken out of all that comes back
base         what a provider of such a service fills in
"""
