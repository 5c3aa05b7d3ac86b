"""One row of a BBQ template table.

Slots and lists are checked when the template is filled, since BBQ's own tables have rows that must be passed over.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, StringConstraints, model_validator

from mbbq_gen.datasets.rows import python_literal
from mbbq_gen.records import NonBlank


def _maybe_list(value: Any) -> Any:
    """An empty cell is an empty list."""
    text = value.strip() if isinstance(value, str) else value
    return [] if text == "" else python_literal(text)


def _flag(value: Any) -> Any:
    """TRUE says yes; FALSE and nothing say no."""
    return {"": False, "false": False, "true": True}.get(str(value).strip().casefold(), value)


Text = Annotated[str, StringConstraints(strip_whitespace=True)]
Filled = Annotated[NonBlank, StringConstraints(strip_whitespace=True)]
Groups = Annotated[list[NonBlank], BeforeValidator(_maybe_list)]

TEXTS: Final = (
    "Ambiguous_Context",
    "Disambiguating_Context",
    "Question_negative_stereotype",
    "Question_non_negative",
    "Answer_negative",
    "Answer_non_negative",
)
"""The columns with slots."""
GENDERS: Final = ("M", "F")
LEVELS: Final = ("lowSES", "highSES")


class TemplateRow(BaseModel):
    """A template; the fields are named as the columns. What a table has no column for is empty.

    A table about one kind of group has `Known_stereotyped_groups`; one about race and gender, or race and status, has
    `Known_stereotyped_race` and `Known_stereotyped_var2` in its place.
    """

    model_config = ConfigDict(frozen=True)

    Q_id: Filled
    version: Text = ""
    Subcategory: Text = ""
    Ambiguous_Context: Filled
    Disambiguating_Context: Filled
    Names: Text = ""
    """Words for NAME1 and NAME2; in the intersectional tables those for the second group, as JSON."""
    Lexical_diversity: Text = ""
    """Words for WORD1 and WORD2; one of each is drawn."""
    Proper_nouns_only: Annotated[bool, BeforeValidator(_flag)] = False
    Question_negative_stereotype: Filled
    Question_non_negative: Filled
    Answer_negative: Filled
    Answer_non_negative: Filled
    Relevant_social_values: Text = ""
    Known_stereotyped_groups: Groups = []
    Known_stereotyped_race: Groups = []
    Known_stereotyped_var2: Text = ""
    """M or F, lowSES or highSES."""
    Var2_info: Groups = []
    """Which of the two entries of `Names` is which."""
    NAME1_info: Text = ""
    NAME2_info: Text = ""
    Stated_gender_info: Text = ""
    Notes: Text = ""

    @model_validator(mode="after")
    def _check_groups(self) -> Self:
        if not self.stereotyped_groups:
            raise ValueError('Known_stereotyped_groups: empty; name the groups that the stereotype is about: ["old"]')
        return self

    @property
    def is_intersectional(self) -> bool:
        """Whether it is about two groups at once."""
        return bool(self.Known_stereotyped_race)

    @property
    def stereotyped_groups(self) -> list[str]:
        """The groups that the stereotype is about; of an intersectional template the races."""
        return self.Known_stereotyped_race if self.is_intersectional else self.Known_stereotyped_groups
