"""Executes an adaptive run: round after round until its stopping rule is met.

    rule ─► round ─► executed and extracted ─► interim analysis ─┬─► next round, of targets not yet reached
                                                                 └─► reason for stopping, in the manifest

The rule is stored with the run. An interrupted round is finished before the next one is chosen.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mbbq_gen.core.config import RunConfig
from mbbq_gen.core.errors import ConfigError
from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.progress import ProgressListener
from mbbq_gen.runs.adaptive import (
    BATCH_GROWTH,
    GROWTH,
    SamplingRounds,
    Stratum,
    candidate_requests,
)
from mbbq_gen.runs.budget import CostLimitError
from mbbq_gen.runs.extraction import extract_run, observations
from mbbq_gen.runs.resolve import notices
from mbbq_gen.runs.run_folder import RunFolder
from mbbq_gen.runs.stopping import InterimAnalysis, TargetStatus, unreachable_targets
from mbbq_gen.runs.stopping_rule import (
    ALPHA,
    SETTINGS,
    StoppingRecord,
    StoppingRule,
    asked_for,
    target_line,
)
from mbbq_gen.scoring.columns import Questions
from mbbq_gen.scoring.metrics import METRICS
from mbbq_gen.statistics.estimate import InferenceSettings
from mbbq_gen.storage.ledgers import add_round, last_round, rounds_of_answers
from mbbq_gen.storage.store import RunStore

if TYPE_CHECKING:
    import polars


@dataclass
class AdaptiveRun:
    """An adaptive run, open for writing."""

    folder: RunFolder
    store: RunStore
    resources: PackPaths
    watcher: ProgressListener
    rule: StoppingRule
    settings: RunConfig
    by_batch: bool = False
    """Whether rounds are batches: they are fewer then."""

    async def execute(self, ask_taken: Callable[[], Awaitable[bool]]) -> bool:
        """Asks round after round until it is enough; whether batches are under way when it returns.

        `ask_taken` asks what the rounds have taken and says whether batches are under way.
        """
        requests = candidate_requests(self.store, [METRICS[name] for name in self.rule.metrics])
        rounds = SamplingRounds(requests, self.settings.seed, BATCH_GROWTH if self.by_batch else GROWTH)
        few = unreachable_targets(self.rule, rounds.strata, rounds.offered)
        if few is not None and not self.store.progress().pending:
            raise ConfigError(SETTINGS[self.rule.kind], None, f"{few}; give {{answers_per_template}}, or select more")
        self.watcher.say(f"in rounds, until {asked_for(self.rule)}")
        while True:
            if self.store.progress().pending:
                try:
                    if await ask_taken():
                        return True
                except CostLimitError:
                    self._keep(rounds, self._look(rounds), "stopped by --max-cost in the middle of a round")
                    raise
            standing = self._look(rounds)
            taken = rounds.next_round(self._wanted(rounds, standing), self.rule.answers)
            if not taken:
                self._keep(rounds, standing, _why(standing))
                return False
            add_round(self.store, rounds.last, [request.request_key for request in taken])
            self.watcher.say(f"round {rounds.last}: {len(taken):,} requests")

    def _wanted(self, rounds: SamplingRounds, standing: TargetStatus | None) -> list[Stratum]:
        """The strata that the next round asks."""
        rule = self.rule
        left = [stratum for stratum in rounds.strata if not rounds.is_used_up(stratum)]
        if rule.first is not None:
            left = [stratum for stratum in left if stratum[2] in (rule.first, rule.second)]
        if standing is None or rule.kind == "answers":
            return left
        return standing.wanted(left, rounds.reached)

    def _look(self, rounds: SamplingRounds) -> TargetStatus | None:
        """How the targets stand; None before anything is answered."""
        frame = self._frame()
        if frame.is_empty():
            return None
        return InterimAnalysis(self.rule, frame, rounds.offered, rounds.is_used_up, rounds.strata).standing()

    @cached_property
    def _questions(self) -> Questions:
        """The run's questions, which stay the same from one look to the next."""
        return self.store.questions()

    def _frame(self) -> polars.DataFrame:
        """The answers so far, with the round of each."""
        import polars as pl

        found = extract_run(self.store, self.resources, lambda _: None)
        versions = {language: [version] for language, version in found.items()}
        frame = observations(self.store, versions, self.settings.model, questions=self._questions)
        return frame.with_columns(pl.Series("round", rounds_of_answers(self.store, versions), pl.Int64))

    def _keep(self, rounds: SamplingRounds, standing: TargetStatus | None, why: str) -> None:
        """Says why the run stops, and writes it into the manifest."""
        progress = self.store.progress()
        offered = sum(rounds.offered(lambda _: True).values())
        targets = () if standing is None else standing.targets
        number = last_round(self.store)
        rounds_told = f"{number} round{'' if number == 1 else 's'}"
        sentence = f"{why}, after {rounds_told} and {progress.requests:,} of {offered:,} requests"
        is_fixed = self.rule.kind == "answers" and not self.rule.looked
        stopping = StoppingRecord(
            rule=self.rule,
            rounds=number,
            requests=progress.requests,
            offered=offered,
            targets=targets,
            level=None if is_fixed or standing is None else standing.level,
            sentence=sentence,
        )
        said = (f"adaptive run, until {asked_for(self.rule)}: {sentence}", *map(target_line, targets))
        for line in said:
            self.watcher.say(line)
        manifest = self.folder.manifest()
        told = (*notices(self.settings), *said)
        self.folder.write_manifest(manifest.model_copy(update={"adaptive": stopping, "notices": told}))


def _why(standing: TargetStatus | None) -> str:
    """Why nothing more is sent."""
    if standing is None:
        return "nothing counts for the metrics"
    if standing.rule.kind == "answers":
        return "asked"
    verdicts = [target.verdict for target in standing.targets]
    if all(verdict == "reached" for verdict in verdicts):
        return "reached"
    if "not found" in verdicts and set(verdicts) <= {"reached", "not found"}:
        some = f"reached for {verdicts.count('reached')} of {len(verdicts)}; " if "reached" in verdicts else ""
        return f"{some}enough requests to find {standing.rule.detectable_effect:g} in 90 %"
    if "reached" in verdicts:
        return f"reached for {verdicts.count('reached')} of {len(verdicts)}, and no more can be"
    return "can't be reached"


MAX_LISTED: Final = 0.9999


def sequential_inference(
    sampling: InferenceSettings, paths: Sequence[Path], tell: Callable[[str], None]
) -> InferenceSettings:
    """The inference settings of these runs, by `sequential_confidence_level`; `tell` gets a message if they differ."""
    folders = [RunFolder(path) for path in dict.fromkeys(paths)]
    stops = [folder.manifest().adaptive for folder in folders if folder.manifest_path.is_file()]
    aimed = sorted({stop.rule.average for stop in stops if stop is not None} - {sampling.average})
    if aimed and sampling.average == "questions":
        tell(f"adaptive run: its stopping rule is about another average: score it with --average {aimed[0]}")
    found = sequential_confidence_level(sampling.confidence, stops)
    if found == sampling.confidence:
        return sampling
    level = ALPHA * (1 - found) / (1 - sampling.confidence)
    told = f"{100 * found:.6g} %" if found < MAX_LISTED else f"more than {100 * MAX_LISTED:.6g} %"
    tell(
        f"adaptive run: intervals are at {told}, so that they hold {100 * sampling.confidence:.4g} % at any"
        f" stop; p-values are for a fixed sample: compare them with {level:.3g} instead of {ALPHA}"
    )
    return replace(sampling, confidence=found)


def sequential_confidence_level(confidence: float, stops: Iterable[StoppingRecord | None]) -> float:
    """The confidence of intervals over runs that stopped so: a higher one where a run looked before it stopped.

    The error is scaled by the level of the strictest target at the last look over 5 %. This is exact for the targets
    of the run; for other scores it is as cautious as for the strictest target.
    """
    levels = [stop.level for stop in stops if stop is not None and stop.level is not None]
    return 1 - (1 - confidence) * min([*levels, ALPHA]) / ALPHA if levels else confidence
