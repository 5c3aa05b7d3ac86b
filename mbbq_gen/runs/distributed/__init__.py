"""Runs distributed by Ray: `mbbq-gen run RUN --ray local`.

    pending requests ─► workers, one provider each ─► responses ─► the store of the run
                        (pool, worker)

`cluster` starts and stops Ray. See docs/guides/run-on-a-cluster.md and docs/decisions/0030-responses-through-ray.md.
"""
