"""How a run is asked, as far as it changes no answer: what it may cost, how much may fail, which cache it shares.

Kept in the run's store, so that `mbbq-gen run RUN` goes on under the same rules.
"""

from __future__ import annotations

from typing import Final

from pydantic import Field, ValidationError

from mbbq_gen.errors import RunError
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
