"""Settings of the fake service, and what goes wrong: drawn from the seed, the question and the attempt alone."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any, Final

from mbbq_gen.core.files import stable_number

FAULTS: Final = ("rate_limited", "server_error", "hang", "drop", "lost", "cut", "malformed", "page")
"""`drop`: the connection is closed before anything is done; `lost`: after the answer is paid; `cut`: amid the body;
`malformed`: not JSON; `page`: 403 with a web page, as a proxy sends it."""
OUTCOMES: Final = ("filtered_prompt", "filtered_answer", "refused", "empty", "truncated")  # empty: all for reasoning

# fmt: off
DEFAULTS: Final[Mapping[str, Any]] = {
    "seed": 0,
    "answers": {
        "oracle": "perfect", "speech": None,  # the questions of the run are answered by an oracle,
        "unrecognised": "fixed", "fixed": "A",  # others by a fixed text, an `echo` of theirs, or error 400: `reject`
        "output_tokens": None, "reasoning_tokens": 0, "usage": "told",  # or missing
        "thoughts": None,  # the oracle whose choice each thought ends on, where the model may think
        "thought_form": "reasoning_content",  # or reasoning, tags, hidden
        "logprobs": "labels",  # first tokens that are listed: the labels, what is `said`, or `nothing`
        "padding": 0, "reported_model": None,  # characters added to each answer; the model's name in it
    },
    "latency": {"seconds": 0.0},
    "faults": {
        **dict.fromkeys(FAULTS, 0.0), "most_per_request": 3,  # shares of the first so many attempts at a question
        "retry_after_s": 1.0, "retry_after_form": "seconds",  # or untold
        "server_statuses": [500, 502, 503, 504],
        "routes": "asking",  # `all`: files and batches too
    },
    "content": dict.fromkeys(OUTCOMES, 0.0),  # shares of all questions
    "access": {
        "key": None, "models": [], "quota": None, "refused_parameters": [],  # those that exist or are accepted; answers
    },
    "limits": {"rpm": None, "burst_s": 60.0},  # `burst_s` seconds' worth may come at once
    "batches": {
        "delay_s": 0.0,  # from a batch's creation to its end
        "failed": 0.0, "expired": 0.0, "most_per_request": 2,  # shares of the first so many tries at a question
        "rejected": 0.0,  # share of batches
        "max_requests": 50_000, "max_bytes": 200_000_000,
        "results_file": None,  # file whose lines are given as results
    },
}
# fmt: on

Settings = dict[str, Any]


def changed(settings: Mapping[str, Any], changes: Mapping[str, Any]) -> Settings:
    """Settings with some changed: tables are merged, None restores one; raises KeyError for an unknown name."""
    found = deepcopy(dict(settings))
    for name, value in ((name, DEFAULTS[name] if value is None else value) for name, value in changes.items()):
        if isinstance(value, Mapping) and (unknown := value.keys() - DEFAULTS[name].keys()):
            raise KeyError(f"{name}: {unknown}")
        found[name] = found[name] | value if isinstance(value, Mapping) else value
    return found


def chance(*parts: object) -> float:
    """A number in [0, 1) that depends on the parts alone."""
    return (stable_number(*parts) >> 11) / (1 << 53)


def draw(names: Sequence[str], shares: Mapping[str, float], *parts: object) -> str | None:
    """One of the names, each with its share, or None."""
    point = chance(*parts)
    for name in names:
        point -= shares[name]
        if point < 0:
            return name
    return None


class Bucket:
    """Requests a minute, refilled steadily."""

    def __init__(self, per_minute: int, burst_s: float) -> None:
        self.limit, self.rate = per_minute, per_minute / 60
        self.capacity = self.level = max(1.0, self.rate * burst_s)
        self._at = time.monotonic()

    def take(self) -> float:
        """Seconds to wait before a request may come; 0: it is counted."""
        now = time.monotonic()
        self.level, self._at = min(self.capacity, self.level + (now - self._at) * self.rate), now
        wait = max(0.0, (1 - self.level) / self.rate)
        self.level -= wait == 0
        return wait

    def headers(self) -> dict[str, str]:
        """How many requests are left, as OpenAI says it."""
        reset = f"{round((self.capacity - self.level) / self.rate * 1000)}ms"
        limit, remaining, name = str(self.limit), str(int(self.level)), "x-ratelimit-{}-requests".format
        return {name("limit"): limit, name("remaining"): remaining, name("reset"): reset}
