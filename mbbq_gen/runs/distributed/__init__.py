"""Runs distributed by Ray: `mbbq-gen run RUN --ray local`.

    pending requests ─► blocks ─► workers, one provider each ─► shards ─► the store of the run
                        (pool)    (worker, pool)               (storage)  (by the driver, once each)

`cluster` starts and stops Ray. See docs/guides/run-on-a-cluster.md and docs/decisions/0011-distributed-runs.md.
"""
