"""The status of the workers of a distributed run, as `mbbq-gen status` shows it."""

from __future__ import annotations

from typing import Final

from mbbq_gen.core.records import FrozenModel

STATUS_META: Final = "ray"
"""Name of the status in a run's `meta`."""


class WorkerStatus(FrozenModel):
    """One worker, with those that it replaced."""

    number: int
    answered: int
    deaths: int


class DistributedStatus(FrozenModel):
    """The workers of a run."""

    ray: str
    """`local`, or the address of a running Ray."""
    workers: tuple[WorkerStatus, ...]
