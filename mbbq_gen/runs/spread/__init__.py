"""An evaluation spread by Ray: `mbbq-gen run RUN --on ray`.

    pending requests ─► blocks ─► workers, one provider each ─► shards ─► the run's store
                      (blocks)   (worker, pool)              (shards)    (by the driver, once each)

`cluster` starts and ends Ray; docs/scale.md tells what can be had, and
docs/decisions/0011-distributed-runs.md why it is so.
"""
