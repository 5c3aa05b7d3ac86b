"""The configuration of a run: its prompts (fixed), and the limits of its execution (may change on resume)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import Field, JsonValue

from mbbq_gen.core.errors import UsageError
from mbbq_gen.core.records import FrozenModel, Method, Normalise, Split


class ExecutionConfig(FrozenModel):
    """The rules under which requests of a run are sent. They may change whenever it goes on."""

    max_cost: float | None = Field(default=None, gt=0)
    """US dollars that the run may cost; None: no limit."""
    max_error_rate: float = Field(default=0.2, ge=0, le=1)
    """Share of failed requests above which the run stops."""
    cache_dir: str | None = None
    """Folder of the answers that runs share; None: none."""
    prices: str | None = None
    """The user's own prices; None: those that ship."""


@dataclass(frozen=True)
class ExecutionOverrides:
    """Rules that are to hold from now on; None: as before."""

    max_cost: float | None = None
    max_error_rate: float | None = None
    cache_dir: Path | None = None
    prices: Path | None = None

    def applied_to(self, before: ExecutionConfig) -> ExecutionConfig:
        """The rules of before, with what is given now.

        Raises:
            UsageError: where one is out of bounds.
        """
        if self.max_cost is not None and self.max_cost <= 0:
            raise UsageError(f"--max-cost {self.max_cost:g}: give an amount above 0, in US dollars")
        if self.max_error_rate is not None and not 0 <= self.max_error_rate <= 1:
            raise UsageError(f"--max-error-rate {self.max_error_rate:g}: give a share from 0 to 1")
        given: dict[str, float | str | None] = {"max_cost": self.max_cost, "max_error_rate": self.max_error_rate}
        given["cache_dir"] = None if self.cache_dir is None else str(self.cache_dir.absolute())
        given["prices"] = None if self.prices is None else str(self.prices.absolute())
        return before.model_copy(update={name: value for name, value in given.items() if value is not None})


OWN_DATA = "instances"
"""Name of the choice that is a file of the user's own."""


class BenchmarkChoice(FrozenModel):
    """A benchmark and where its files are."""

    name: str
    data_dir: str | None = None
    """Folder or file of the user's copy; None for a benchmark that ships."""
    field_map: str | None = None
    """File that says which fields of the user's own file are which of ours; None where they have our names."""


def name_in_copy(choice: BenchmarkChoice, path: Path) -> str:
    """What a manifest calls a data file: the benchmark, and where the file stands in the user's copy of it."""
    root = Path(choice.data_dir or "")
    place = path.relative_to(root).as_posix() if path.is_relative_to(root) else path.name
    return f"{choice.name}/{place}"


class RunConfig(FrozenModel):
    """What the user requested: the same settings and packs give the same plan."""

    model: str
    """`kind:model`."""
    model_args: dict[str, JsonValue] = Field(default_factory=dict)
    """Options of the provider that were given, by name."""
    system_prompt: str | None = None
    """Text of the system message, or None for none of ours."""
    benchmarks: tuple[BenchmarkChoice, ...]
    languages: tuple[str, ...]
    splits: tuple[Split, ...]
    make_control: bool = False
    """Whether control questions are made by substitution where the data has none."""
    variants: tuple[str, ...]
    """Ids of the prompt variants."""
    methods: tuple[Method, ...] = ("generate",)
    """What the model has to do."""
    scored_variants: tuple[str, ...] = ()
    """Ids of the prompt variants for loglikelihoods of answers."""
    reasoning_effort: tuple[str, ...] = ()
    """How much the model is to think first, each level in turn; empty: nothing is said of it."""
    normalization: Normalise = "sum"
    """How loglikelihoods are made comparable, unless a command says otherwise; shapes no request but for `pmi`."""
    prompt_source: Literal["builtin", "published"] = "builtin"
    """Whose prompt variants: out of our language packs, or the authors' out of the user's copy of a benchmark."""
    option_order: str
    """Option order policy."""
    label_styles: tuple[str, ...]
    num_fewshot: int = 0
    """Few-shot examples before each question."""
    instruction_language: str | None = None
    """Language of the prompt variants where it is not the questions'."""
    no_context: bool = False
    """Whether contexts are left out."""
    unknown_text: str | None = None
    """How the unknown option is worded anew, as it was typed; None: as in the data."""
    seed: int
    sample: int | None = None
    """Questions for each benchmark × language × split, or None for all."""

    @property
    def is_scored(self) -> bool:
        """Whether any loglikelihood is requested."""
        return any(method != "generate" for method in self.methods)
