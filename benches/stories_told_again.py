"""What the reader takes out of a story that is told again and answers nothing: every benchmark's own contexts, read as
if they were answers.

    python benches/stories_told_again.py                                   the starter benchmark, 22 languages
    python benches/stories_told_again.py bbq=FOLDER mbbq=FOLDER --each 4   published files beside it

A model that tells the story again in words of its own has not answered. Each context is read as the whole answer to its
question (and the question alone as the prompt: else the reader knows it for an echo and leaves it out). What must not
happen is counted: a person chosen by an ambiguous story, and "it can't be told" read out of any story, which says no
such thing. Disambiguated stories tell what both people did; a reader who took one of them without knowing what is asked
would be right half the time, so what is read right and wrong stands side by side.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

from published import add_sources, instances_of, sources_of

from mbbq_gen.extraction import Question, load_extractor
from mbbq_gen.records import Instance

SEED = 5


def stories(benchmark: str, folder: Path | None, each: int) -> Iterator[Instance]:
    """So many different contexts of each template, language and condition, drawn anew alike each time."""
    drawn: defaultdict[tuple[str, str, str], dict[str, Instance]] = defaultdict(dict)
    for found in instances_of(benchmark, folder):
        if [option.role for option in found.options].count("unknown") == 1:
            drawn[found.language, found.template_id, found.condition].setdefault(found.context, found)
    rng = random.Random(SEED)
    for key in sorted(drawn):
        contexts = list(drawn[key].values())
        yield from rng.sample(contexts, min(each, len(contexts)))


def what_is_read(story: Instance) -> str:
    """What the reader takes the bare story to answer: nothing, a person, or that it can't be told."""
    unknown = [option.role for option in story.options].index("unknown")
    labels = "ABCDEFGHIJ"[: len(story.options)]
    question = Question([option.text for option in story.options], list(labels), unknown, story.question)
    option = load_extractor(story.language).extract(story.context, question).option
    if option is None:
        return "nothing"
    if option == unknown:
        return "untold"
    if story.condition == "ambiguous":
        return "person"
    return "right" if option == story.answer_index else "wrong"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_sources(parser)
    parser.add_argument("--each", type=int, default=4, help="contexts of each template, language and condition")
    chosen = parser.parse_args()
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for benchmark, folder in sources_of(parser, chosen):
        for story in stories(benchmark, folder, chosen.each):
            counts[story.language][f"{story.condition[:3]}:{what_is_read(story)}"] += 1
    total: Counter[str] = sum(counts.values(), Counter())
    print("| language | ambiguous | a person is chosen | can't be told | the others | right | wrong | can't be told |")
    print("|---|---|---|---|---|---|---|---|")
    for language, found in [*sorted(counts.items()), ("all", total)]:
        ambiguous = sum(count for kind, count in found.items() if kind.startswith("amb"))
        cells = [ambiguous, found["amb:person"], found["amb:untold"], found.total() - ambiguous]
        cells += [found["dis:right"], found["dis:wrong"], found["dis:untold"]]
        print(f"| {language} | " + " | ".join(f"{cell:,}" for cell in cells) + " |")


if __name__ == "__main__":
    main()
