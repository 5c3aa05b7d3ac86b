"""Rebuilds the starter benchmark's own control split, language by language, from its bias split.

    python benches/starter_control.py [--languages eu,hi] [--show] [--json FILE]

The control questions of `starter` are made from its templates, with the forms that each language's writer gave, and
so are right by making. Here its bias questions go through substitution instead, as any other benchmark's do, with the
names of the template's own control question. Counted is what comes out letter by letter the same, context and question
both; what is refused; and what differs, which `--show` prints. No published data is needed.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mbbq_gen.datasets.registry import load_benchmark
from mbbq_gen.languages import NameGender, read_control_set
from mbbq_gen.records import Instance
from mbbq_gen.resources import Resources
from mbbq_gen.substitution import ControlMaker, makeable_languages
from mbbq_gen.substitution.mention import NotReplaceableError
from mbbq_gen.substitution.plan import write
from mbbq_gen.substitution.questions import people_of


class OtherGenderError(Exception):
    """The template's own names have another gender than the bias question's words demand: nothing to compare."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--languages", default=",".join(makeable_languages(Resources())))
    parser.add_argument("--show", action="store_true", help="print the first of each template that differs")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    found = []
    print(
        "| language | questions | the same | other words | refused | most frequent reasons | names of another gender |"
    )
    print("|---|---|---|---|---|---|---|")
    for language in arguments.languages.split(","):
        row = _row(language, arguments.show)
        found.append(row)
        questions = row["questions"]
        shares = " | ".join(f"{row[kind] / questions:.1%}" for kind in ("same", "differs", "refused"))
        reasons = ", ".join(f"{reason} {count}" for reason, count in row["reasons"].items())
        print(f"| {language} | {questions} | {shares} | {reasons} | {row['other_gender']} |", flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def _row(language: str, show: bool) -> dict[str, Any]:
    """What became of the questions of a language."""
    maker = ControlMaker(read_control_set(Resources(), language))
    counts: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    shown: set[str] = set()
    other_gender = 0
    for bias, control in _twins(language):
        try:
            lines = ""
            made, wanted = _rebuilt(maker, bias, control), (control.context, control.question)
        except OtherGenderError:
            other_gender += 1
        except NotReplaceableError as left:
            counts["refused"] += 1
            reasons[left.reason] += 1
            lines = f"{left}\n  {bias.context} | {bias.question} | {' / '.join(people_of(bias))}"
        else:
            counts["same" if made == wanted else "differs"] += 1
            ours, theirs = (" | ".join(texts) for texts in (made, wanted))
            lines = "" if made == wanted else f"was   {bias.context}\n  ours   {ours}\n  theirs {theirs}"
        if show and lines and (what := f"{bias.template_id} {lines.split(':')[0][:20]}") not in shown:
            shown.add(what)
            print(f"{bias.instance_id}: {lines}")
    kinds = {kind: counts[kind] for kind in ("same", "differs", "refused")}
    return {
        "language": language,
        "questions": counts.total(),
        **kinds,
        "other_gender": other_gender,
        "reasons": dict(reasons.most_common(4)),
    }


def _twins(language: str) -> Iterator[tuple[Instance, Instance]]:
    """The bias questions with their own control questions."""
    both = list(load_benchmark("starter", languages=[language], splits=["bias", "control"]))
    control = {one.instance_id: one for one in both if one.split == "control"}
    yield from ((one, control[one.instance_id]) for one in both if one.split == "bias")


def _rebuilt(maker: ControlMaker, bias: Instance, control: Instance) -> tuple[str, str]:
    """Context and question of a bias question with the names of its own control question."""
    options, names = people_of(bias), people_of(control)
    plans = maker.plan(bias.context, options), maker.question_plan(bias.question, options)
    gender: NameGender = "f" if names[0] in maker.control_set.names.female else "m"
    if any(gender not in plan.genders for plan in plans):
        raise OtherGenderError
    context, question = (write(plan, names, gender, maker.control_set) for plan in plans)
    return context, question


if __name__ == "__main__":
    main()
