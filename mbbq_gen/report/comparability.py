"""Which models had the same prompts, and how those of the others differ."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars

    from mbbq_gen.runs.run_folder import Manifest


@dataclass(frozen=True)
class PromptFingerprint:
    """The prompts of one model, aspect by aspect."""

    aspects: Mapping[str, str]
    """Aspect → what two models must have alike."""
    shown: Mapping[str, str]
    """Aspect → the same for a person."""

    def differences(self, other: PromptFingerprint) -> list[str]:
        """How this differs from another: `prompt variants: bare instead of letters, polite`."""
        found = [name for name in self.aspects if self.aspects[name] != other.aspects.get(name, self.aspects[name])]
        if found != [_ORDERS]:
            # Other questions and wordings are other prompts by themselves: to say so too tells nothing.
            found = [name for name in found if name != _ORDERS]
        shown = {name: (self.shown[name], other.shown[name]) for name in found}
        return [
            f"other {name}" if ours == theirs else f"{name}: {ours} instead of {theirs}"
            for name, (ours, theirs) in shown.items()
        ]


_ORDERS = "option orders"
_NOTHING = "none"


def prompt_fingerprint(answers: polars.DataFrame, manifest: Manifest | None) -> PromptFingerprint:
    """The prompts behind a table of one model's answers to one benchmark, split and language."""
    question, prompt = ["instance_id"], ["instance_id", "variant", "label_style", "option_order", "reasoning_effort"]
    sent = {"questions": _distinct(answers, question), _ORDERS: _distinct(answers, prompt)}
    digests = {name: hashlib.sha256("\n".join(map(repr, rows)).encode()).hexdigest() for name, rows in sent.items()}
    variants, styles = _values(answers, "variant"), _values(answers, "label_style")
    aspects = {
        "method": _values(answers, "method"),
        "prompt variants": variants,
        "label styles": styles,
        "reasoning effort": _values(answers, "reasoning_effort"),
        **digests,
        **_settings(manifest),
    }
    if manifest is not None and "loglikelihood" in aspects["method"]:
        aspects["normalization"] = manifest.config.normalization
    counts = {name: f"{len(rows):,}" for name, rows in sent.items()}
    shown = {**aspects, **counts, _ORDERS: f"{counts[_ORDERS]} prompts"}
    return PromptFingerprint(aspects, shown)


def _settings(manifest: Manifest | None) -> dict[str, str]:
    """What answers do not tell of how they were requested."""
    if manifest is None:
        return dict.fromkeys(("contexts", "few-shot examples", "instructions", "unknown text", "system prompt"), "")
    settings = manifest.config
    return {
        "contexts": "left out" if settings.no_context else "shown",
        "few-shot examples": str(settings.num_fewshot),
        "instructions": f"in {settings.instruction_language}" if settings.instruction_language else "as the question",
        "unknown text": settings.unknown_text or "as in the data",
        "system prompt": settings.system_prompt or _NOTHING,
    }


def _values(answers: polars.DataFrame, column: str) -> str:
    return ", ".join("–" if value is None else str(value) for (value,) in _distinct(answers, [column]))


def _distinct(answers: polars.DataFrame, columns: Sequence[str]) -> list[tuple[object, ...]]:
    import polars as pl

    return (
        answers.select(pl.col(column).cast(pl.String) for column in columns)
        .unique()
        .sort(columns, nulls_last=True)
        .rows()
    )


def group_same_prompts(prompts: Mapping[str, PromptFingerprint]) -> list[list[str]]:
    """The models in groups with the same prompts, the largest first; of equal ones, that of the first model."""
    groups: list[list[str]] = []
    for model, its in prompts.items():
        for group in groups:
            if prompts[group[0]].aspects == its.aspects:
                group.append(model)
                break
        else:
            groups.append([model])
    return sorted(groups, key=lambda group: -len(group))
