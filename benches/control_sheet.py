"""Draws control questions for a reader: the sheets of docs/control-sheets.md.

    python benches/control_sheet.py BENCHMARK LANGUAGE --folder FOLDER --seed SEED [--count 60]

Prints made control questions, drawn from all that the published files give (without FOLDER: from what ships with the
package) by SEED alone, each with its id, its options and the two people it was made from. The reader marks each: good,
or ungrammatical, not answerable, a group left over. The texts are the benchmark's; the sheets hold ids and verdicts.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from mbbq_gen.datasets.registry import load_benchmark
from mbbq_gen.languages import read_control_set
from mbbq_gen.records import Instance
from mbbq_gen.resources import Resources
from mbbq_gen.seeding import stable_number
from mbbq_gen.substitution import ControlMaker, Made
from mbbq_gen.substitution.questions import people_of


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("benchmark")
    parser.add_argument("language")
    parser.add_argument("--folder", type=Path, help="where the benchmark's published files are")
    parser.add_argument("--seed", required=True)
    parser.add_argument("--count", type=int, default=60)
    arguments = parser.parse_args()
    asked = load_benchmark(arguments.benchmark, data=arguments.folder, languages=[arguments.language], splits=["bias"])
    for place, (bias, control) in enumerate(draw(list(asked), arguments.seed, arguments.count), 1):
        options = " / ".join(option.text for option in control.options)
        print(f"{place}. {bias.instance_id}  ({' / '.join(people_of(bias))})")
        print(f"   {control.context} | {control.question} | {options}".replace("\n", " ⏎ "))


def draw(questions: list[Instance], seed: str, count: int) -> list[tuple[Instance, Instance]]:
    """Bias questions with their made control questions, in an order that hangs on seed and ids alone."""
    drawn: list[tuple[Instance, Instance]] = []
    if not questions:
        return drawn
    maker = ControlMaker(read_control_set(Resources(), questions[0].language))
    for question in sorted(questions, key=lambda one: stable_number("sheet", seed, one.key)):
        made = maker.make(question)
        if isinstance(made, Made):
            drawn.append((question, made.instance))
        if len(drawn) == count:
            break
    return drawn


if __name__ == "__main__":
    main()
