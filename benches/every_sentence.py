"""Every sentence that a wordy oracle may say, of every option of a question, read: none may mean another option.

    python benches/every_sentence.py                                      the starter benchmark, 22 languages
    python benches/every_sentence.py esbbq=FOLDER kobbq=FOLDER --each 500  published files beside it

The test of the oracles lets each say one sentence to each question that it draws. What a word of the sentence has to do
with a word of the question shows in one question of thousands ("a partir del texto" where a "partido" is played), so
here all sentences meet many questions. A refusal counts as the unknown option. Options of two people with the same text
are left out: no words tell them apart.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

from published import add_sources, instances_of, sources_of

from mbbq_gen.extraction import load_extractor
from mbbq_gen.languages import fill, read_prompts
from mbbq_gen.presentation import Setting, plan_orders, present
from mbbq_gen.records import Instance, Presentation, Response
from mbbq_gen.resources import Resources
from mbbq_gen.runs.reading import read_answer
from mbbq_gen.runs.store import Answered
from mbbq_gen.sampling import Outline

SEED = 5
STYLES = ("A", "(A)", "1", "a")
RESOURCES = Resources()


def questions(benchmark: str, folder: Path | None, each: int) -> Iterator[tuple[Instance, Presentation]]:
    """So many questions of each language and split, each in one wording; wordings and label styles take turns."""
    drawn: defaultdict[tuple[str, str], list[Instance]] = defaultdict(list)
    known = set(RESOURCES.names("extractors"))
    for found in instances_of(benchmark, folder):
        if found.language in known and "equal_options" not in found.quirks:
            drawn[found.language, found.split].append(found)
    rng = random.Random(SEED)
    for language, split in sorted(drawn):
        instances = rng.sample(drawn[language, split], min(each, len(drawn[language, split])))
        orders = plan_orders("balanced", map(Outline.of, instances), SEED)
        ways = [(variant, style) for style in STYLES for variant in read_prompts(RESOURCES, language).variant]
        for number, instance in enumerate(instances):
            (order,) = orders.orders(instance, 0)
            yield instance, present(instance, Setting(*ways[number % len(ways)]), order)


def said(instance: Instance, shown: Presentation) -> Iterator[tuple[int, str]]:
    """Every sentence, with the place of the option that it means."""
    answers = read_prompts(RESOURCES, instance.language).answers
    for place, index in enumerate(shown.order):
        option = instance.options[index]
        if option.role == "unknown":
            yield from ((place, sentence) for sentence in (*answers.unknown, *answers.refusal))
        else:
            words = {"option": option.text, "label": shown.labels[place]}
            yield from ((place, fill(sentence, words)) for sentence in answers.person)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_sources(parser)
    parser.add_argument("--each", type=int, default=100, help="questions of each language and split")
    chosen = parser.parse_args()
    counts: Counter[tuple[str, str]] = Counter()
    misread: Counter[tuple[str, str]] = Counter()
    for benchmark, folder in sources_of(parser, chosen):
        for instance, shown in questions(benchmark, folder, chosen.each):
            extractor = load_extractor(instance.language, RESOURCES)
            for place, text in said(instance, shown):
                response = Response(request_key="k", text=text, finish_reason="stop")
                found = read_answer(Answered(shown, instance, response), extractor).option
                counts[benchmark, instance.language] += 1
                if found != place:
                    misread[benchmark, instance.language] += 1
                    print(f"{instance.key}: {text!r} read as {found}, not {place}")
    print("| benchmark | language | sentences | misread |")
    print("|---|---|---|---|")
    for key, count in counts.items():
        print(f"| {key[0]} | {key[1]} | {count:,} | {misread[key]:,} |")
    print(f"| all | | {counts.total():,} | {misread.total():,} |")
    sys.exit(1 if misread else 0)


if __name__ == "__main__":
    main()
