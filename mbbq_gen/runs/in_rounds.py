"""Asks a run in rounds: takes a round, has it asked, looks, and goes on until its rule says that it is enough.

rule ─► round ─► asked and read ─► look ─┬─► next round of what is not settled
                                         └─► a sentence why, in the manifest

The rule is kept in the run's store. A round that was cut off is finished before anything else is taken.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

from mbbq_gen.errors import UsageError
from mbbq_gen.resources import Resources
from mbbq_gen.runs.batch_ledger import BatchLedger
from mbbq_gen.runs.folder import RunFolder, RunSettings
from mbbq_gen.runs.goals import Stopping, StopRule, asked_for, goal_line
from mbbq_gen.runs.purse import CostLimitError
from mbbq_gen.runs.reading import observations, read_run
from mbbq_gen.runs.rounds import BATCH_GROWTH, GROWTH, Rounds, Stratum, read_asks, rounds_of_answers, write_round
from mbbq_gen.runs.selection import notices
from mbbq_gen.runs.store import IN_ROUNDS, RunStore
from mbbq_gen.runs.watching import Watcher
from mbbq_gen.scoring.columns import Questions, flattened
from mbbq_gen.scoring.metrics import METRICS

if TYPE_CHECKING:
    import polars

    from mbbq_gen.runs.stopping import Standing

_RULE: Final = "stop_rule"


def rule_of(store: RunStore) -> StopRule | None:
    """The rule of a run; None where it is not asked in rounds."""
    text = store.meta(_RULE)
    return None if text is None else StopRule.model_validate_json(text)


def set_rule(store: RunStore, rule: StopRule, settings: RunSettings) -> None:
    """Keeps what a run is after from now on.

    Raises:
        UsageError: where the run was begun without rounds, or asks for more than words.
    """
    if settings.methods != ("generate",):
        raise UsageError(
            "--until-…: rounds ask for words only; leave --method out, or ask for likelihoods in another run"
        )
    before = rule_of(store)
    if before is None and (store.progress().answered or BatchLedger(store).batches()):
        raise UsageError(
            f"{store.path.parent}: was begun without rounds, so its answers are no balanced part; name another run"
            " folder for --until-… (--cache shares answers between runs)"
        )
    from mbbq_gen.runs.stopping import completed

    kept = completed(rule, before, settings.languages)
    if kept != before:
        store.set_meta(_RULE, kept.model_dump_json())
        store.set_meta(IN_ROUNDS, "yes")


@dataclass
class InRounds:
    """A run in rounds, open for writing."""

    folder: RunFolder
    store: RunStore
    resources: Resources
    watcher: Watcher
    rule: StopRule
    settings: RunSettings
    by_batch: bool = False
    """Whether rounds are batches: they are fewer then."""

    async def ask(self, ask_taken: Callable[[], Awaitable[bool]]) -> bool:
        """Asks round after round until it is enough; whether batches are under way when it returns.

        `ask_taken` asks what the rounds have taken and says whether batches are under way.
        """
        from mbbq_gen.runs.stopping import too_few_templates

        asks = read_asks(self.store, [METRICS[name] for name in self.rule.metrics])
        rounds = Rounds(asks, self.settings.seed, BATCH_GROWTH if self.by_batch else GROWTH)
        few = too_few_templates(self.rule, rounds.strata, rounds.offered)
        if few is not None and not self.store.progress().pending:
            raise UsageError(f"--until-{self.rule.kind}: {few}; ask with --until-answers N, or of more at once")
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
            write_round(self.store, rounds.last, taken)
            self.watcher.say(f"round {rounds.last}: {len(taken):,} requests")

    def _wanted(self, rounds: Rounds, standing: Standing | None) -> list[Stratum]:
        """The strata that the next round asks."""
        rule = self.rule
        left = [stratum for stratum in rounds.strata if not rounds.is_used_up(stratum)]
        if rule.first is not None:
            left = [stratum for stratum in left if stratum[2] in (rule.first, rule.second)]
        if standing is None or rule.kind == "answers":
            return left
        return standing.wanted(left, rounds.reached)

    def _look(self, rounds: Rounds) -> Standing | None:
        """How the goals stand; None before anything is answered."""
        from mbbq_gen.runs.stopping import Looking

        frame = self._frame()
        if frame.is_empty():
            return None
        return Looking(self.rule, frame, rounds.offered, rounds.is_used_up, rounds.strata).standing()

    @cached_property
    def _questions(self) -> Questions:
        """The run's questions, which stay the same from one look to the next."""
        return flattened(self.store.instances())

    def _frame(self) -> polars.DataFrame:
        """The answers so far, with the round of each."""
        import polars as pl

        found = read_run(self.store, self.resources, lambda _: None)
        versions = {language: [version] for language, version in found.items()}
        frame = observations(self.store, versions, self.settings.model, questions=self._questions)
        return frame.with_columns(pl.Series("round", rounds_of_answers(self.store, versions), pl.Int64))

    def _keep(self, rounds: Rounds, standing: Standing | None, why: str) -> None:
        """Says why the run stops, and writes it into the manifest."""
        progress = self.store.progress()
        offered = sum(rounds.offered(lambda _: True).values())
        goals = () if standing is None else standing.goals
        (number,) = self.store.query("SELECT coalesce(max(round), 0) FROM rounds").fetchone()
        rounds_told = f"{number} round{'' if number == 1 else 's'}"
        sentence = f"{why}, after {rounds_told} and {progress.requests:,} of {offered:,} requests"
        is_fixed = self.rule.kind == "answers" and not self.rule.looked
        stopping = Stopping(
            rule=self.rule,
            rounds=int(number),
            requests=progress.requests,
            offered=offered,
            goals=goals,
            level=None if is_fixed or standing is None else standing.level,
            sentence=sentence,
        )
        said = (f"asked in rounds, until {asked_for(self.rule)}: {sentence}", *map(goal_line, goals))
        for line in said:
            self.watcher.say(line)
        manifest = self.folder.manifest()
        told = (*notices(self.settings), *said)
        self.folder.write_manifest(manifest.model_copy(update={"stopping": stopping, "notices": told}))


def _why(standing: Standing | None) -> str:
    """Why nothing more is asked."""
    if standing is None:
        return "nothing counts for the metrics"
    if standing.rule.kind == "answers":
        return "asked"
    verdicts = [goal.verdict for goal in standing.goals]
    if all(verdict == "reached" for verdict in verdicts):
        return "reached"
    if "not found" in verdicts and set(verdicts) <= {"reached", "not found"}:
        some = f"reached for {verdicts.count('reached')} of {len(verdicts)}; " if "reached" in verdicts else ""
        return f"{some}asked as much as finds {standing.rule.find:g} in 90 %"
    if "reached" in verdicts:
        return f"reached for {verdicts.count('reached')} of {len(verdicts)}, and no more can be"
    return "can't be reached"
