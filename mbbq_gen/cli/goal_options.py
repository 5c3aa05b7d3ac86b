"""What a run is after, where it is asked in rounds: the options, and the rule that they mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from mbbq_gen.errors import UsageError

if TYPE_CHECKING:
    from mbbq_gen.runs.folder import RunSettings
    from mbbq_gen.runs.goals import StopRule


@dataclass(frozen=True)
class GoalOptions:
    """When a run has asked enough, as it was typed."""

    until_width: Annotated[
        float | None,
        typer.Option(
            help="Ask in rounds until every interval is no wider, from its lower to its upper end.", metavar="W"
        ),
    ] = None
    until_decided: Annotated[
        str | None,
        typer.Option(help='Ask in rounds until this is answered: "bias != 0", or "en != tr".', metavar="QUESTION"),
    ] = None
    until_answers: Annotated[
        int | None,
        typer.Option(min=1, help="Ask so many answers of every template, in each language and split.", metavar="N"),
    ] = None
    smaller_than: Annotated[
        float | None,
        typer.Option(help="--until-decided: what is too small to matter; showing that is an answer. Default 0.03."),
    ] = None
    to_find: Annotated[
        float | None,
        typer.Option(
            help="--until-decided: what size is to be found in 90 %; no more is asked than that takes.", metavar="D"
        ),
    ] = None
    metric: Annotated[
        str | None,
        typer.Option(
            help="--until-…: the scores, comma-separated; only what counts for them is asked. Default"
            " mbbq_bias_ambiguous.",
            metavar="NAME,…",
        ),
    ] = None
    by: Annotated[
        str | None,
        typer.Option(help="--until-…: an interval for each language, category. Default: language.", metavar="NAME,…"),
    ] = None

    def rule(self, settings: RunSettings) -> StopRule | None:
        """The rule; None where none was given.

        Raises:
            UsageError: where two were, or one makes no sense.
        """
        from mbbq_gen.runs.goals import StopRule
        from mbbq_gen.runs.names import all_of
        from mbbq_gen.runs.stopping import GROUPS, parse_question
        from mbbq_gen.scoring import METRICS

        given = {"width": self.until_width, "decided": self.until_decided, "answers": self.until_answers}
        kinds = [kind for kind, value in given.items() if value is not None]
        if len(kinds) > 1:
            raise UsageError(f"--until-{kinds[0]}, --until-{kinds[1]}: give one of them")
        if not kinds:
            self._check_alone()
            return None
        sizes = {"smaller-than": self.smaller_than, "to-find": self.to_find}
        for name, number in {"until-width": self.until_width, **sizes}.items():
            if number is not None and not number > 0:
                raise UsageError(f"--{name} {number:g}: give a number above 0")
        for name, number in sizes.items():
            if number is not None and self.until_decided is None:
                raise UsageError(f"--{name} belongs to --until-decided; leave it out")
        first, second = parse_question(self.until_decided, settings.languages) if self.until_decided else (None, None)
        said: dict[str, object] = {}  # what is left out stays as the run had it
        if self.metric is not None:
            said["metrics"] = tuple(all_of("metric", self.metric, list(METRICS)))
        if self.by is not None:
            said["by"] = tuple(all_of("grouping of goals", self.by, GROUPS))
        if self.smaller_than is not None:
            said["small"] = self.smaller_than
        if self.to_find is not None:
            said["find"] = self.to_find
        return StopRule(
            kind=kinds[0], width=self.until_width, first=first, second=second, answers=self.until_answers, **said
        )

    def _check_alone(self) -> None:
        """Refuses what means nothing without a rule."""
        for name in ("smaller_than", "to_find", "metric", "by"):
            if getattr(self, name) is not None:
                option = name.replace("_", "-")
                raise UsageError(f"--{option} belongs to --until-width, --until-decided or --until-answers; give one")
