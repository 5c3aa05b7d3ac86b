"""How a run is asked, as far as it changes no answer: what it may cost, how much may fail, which cache it shares.

Kept in the run's store, so that `mbbq-gen run RUN` goes on under the same rules.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import Field, ValidationError

from mbbq_gen.errors import RunError, UsageError
from mbbq_gen.languages import describe_fault
from mbbq_gen.records import Record
from mbbq_gen.runs.store import RunStore

_NAME: Final = "asking"


class AskingSettings(Record):
    """The rules under which a run is asked. They may change whenever it goes on."""

    max_cost: float | None = Field(default=None, gt=0)
    """US dollars that the run may cost; None: no limit."""
    max_errors: float = Field(default=0.2, ge=0, le=1)
    """Share of failed requests above which the run stops."""
    cache: str | None = None
    """Folder of the answers that runs share; None: none."""
    price_file: str | None = None
    """The user's own prices; None: those that ship."""


@dataclass(frozen=True)
class RuleChanges:
    """Rules that are to hold from now on; None: as before."""

    max_cost: float | None = None
    max_errors: float | None = None
    cache: Path | None = None
    price_file: Path | None = None

    def applied_to(self, before: AskingSettings) -> AskingSettings:
        """The rules of before, with what is given now.

        Raises:
            UsageError: where one is out of bounds.
        """
        if self.max_cost is not None and self.max_cost <= 0:
            raise UsageError(f"--max-cost {self.max_cost:g}: give an amount above 0, in US dollars")
        if self.max_errors is not None and not 0 <= self.max_errors <= 1:
            raise UsageError(f"--max-errors {self.max_errors:g}: give a share from 0 to 1")
        given: dict[str, float | str | None] = {"max_cost": self.max_cost, "max_errors": self.max_errors}
        given["cache"] = None if self.cache is None else str(self.cache.absolute())
        given["price_file"] = None if self.price_file is None else str(self.price_file.absolute())
        return before.model_copy(update={name: value for name, value in given.items() if value is not None})


def load_asking(store: RunStore) -> AskingSettings:
    """The rules that the run had last.

    Raises:
        RunError: where the store holds something else.
    """
    text = store.meta(_NAME)
    if text is None:
        return AskingSettings()
    try:
        return AskingSettings.model_validate_json(text)
    except ValidationError as error:
        raise RunError(f"{store.path}: {_NAME}: {describe_fault(error, {})}") from error


def save_asking(store: RunStore, settings: AskingSettings) -> None:
    """Keeps the rules with the run."""
    store.set_meta(_NAME, settings.model_dump_json())
