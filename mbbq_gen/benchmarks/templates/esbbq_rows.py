"""One row of an EsBBQ template workbook, in one language, and the checks that it passes on the way in."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from mbbq_gen.benchmarks.rows import python_literal
from mbbq_gen.benchmarks.templates.slots import check_slots
from mbbq_gen.core.records import NonBlank

MARKER: Final = "ambiguous_context"
"""A column that every template workbook has in each of its languages."""


def _checked_slots(text: str) -> str:
    check_slots(text)
    return text


def _empty_list(value: Any) -> Any:
    """An empty cell is an empty list."""
    return [] if value == "" else python_literal(value)


def _flag(value: Any) -> Any:
    """1 and true say yes, 0, false and nothing say no."""
    return {"": False, "0": False, "false": False, "1": True, "true": True}.get(str(value).lower(), value)


Story = Annotated[NonBlank, AfterValidator(_checked_slots)]
Groups = Annotated[list[NonBlank], BeforeValidator(python_literal)]


class TemplateRow(BaseModel):
    """A template; the fields are named as the columns, without the language's ending."""

    model_config = ConfigDict(frozen=True)

    label: Literal["t", "m", "n"]
    """Whether BBQ's template was transferred or modified, or is new."""
    esbbq_template_id: NonBlank
    version: str = ""
    esbbq_category: NonBlank
    subcategory: str = ""
    ambiguous_context: Story
    disambiguating_context: Story
    names: str = ""
    """Words for NAME1 and NAME2, if the template lists its own."""
    lexical_diversity: str = ""
    """Words for WORD1, WORD2 and so on."""
    proper_nouns_only: Annotated[bool, BeforeValidator(_flag)] = False
    question_negative_stereotype: Story
    question_non_negative: Story
    answer_negative: Story
    answer_non_negative: Story
    relevant_social_values: str = ""
    stereotyped_groups: Annotated[Groups, Field(min_length=1)]
    non_stereotyped_groups: Annotated[list[NonBlank], BeforeValidator(_empty_list)] = []
    NAME1_info: str = ""
    NAME2_info: str = ""
    stated_gender_info: Literal["", "m", "f", "fake-f"] = ""
    """`fake-f`: feminine in grammar only (a person, a family)."""
    esbbq_source: Annotated[list[str], BeforeValidator(_empty_list)] = []

    @property
    def gender(self) -> str:
        """The gender that words agree with."""
        return self.stated_gender_info.removeprefix("fake-")
