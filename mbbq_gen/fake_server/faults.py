"""Decides what goes wrong: from the seed, the question's digest and the number of the attempt alone."""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import NormalDist

from mbbq_gen.fake_server.scenario import Scenario
from mbbq_gen.seeding import stable_number

_NORMAL = NormalDist()


def chance(*parts: object) -> float:
    """A number in [0, 1) that depends on the parts alone."""
    return (stable_number(*parts) >> 11) / (1 << 53)


def draw(shares: Mapping[str, float], point: float) -> str | None:
    """The name in whose share of [0, 1) a point lies; None where it lies in nobody's."""
    for name, share in shares.items():
        point -= share
        if point < 0:
            return name
    return None


class Fate:
    """What the scenario does to each question. Made anew when the scenario changes."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._faults = {name: share for name, share in scenario.faults.shares().items() if share}
        self._verdicts = {name: share for name, share in scenario.content.shares().items() if share}
        self.delay_is_fixed = scenario.latency.spread == 0 or scenario.latency.seconds == 0

    def fault(self, digest: str, attempt: int) -> str | None:
        """The fault that an attempt meets, or None; attempts count from 0."""
        if not self._faults or attempt >= self._scenario.faults.most_per_request:
            return None
        return draw(self._faults, chance("fault", self._scenario.seed, digest, attempt))

    def status(self, digest: str, attempt: int) -> int:
        """The status of a server error."""
        statuses = self._scenario.faults.server_statuses
        return statuses[stable_number("status", self._scenario.seed, digest, attempt) % len(statuses)]

    def verdict(self, digest: str) -> str | None:
        """What becomes of the question's content, or None; the same at every attempt."""
        return draw(self._verdicts, chance("verdict", self._scenario.seed, digest)) if self._verdicts else None

    def delay_s(self, digest: str, attempt: int) -> float:
        """Seconds to the answer."""
        latency = self._scenario.latency
        if self.delay_is_fixed:
            return latency.seconds
        point = chance("latency", self._scenario.seed, digest, attempt)
        return latency.seconds * math.exp(latency.spread * _NORMAL.inv_cdf(max(point, 1e-9)))
