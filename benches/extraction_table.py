"""Prints how the development set is read, by language and family, for the extractor and the simple readers.

    python -m benches.extraction_table [--extractor NAME] [--language xx] [--family NAME] [--misses]

Each cell: correct / wrong option / missed / false positive, in per cent; wrong and missed over the cases that have an
answer, false positives over those that have none.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable

from mbbq_gen.extraction import load_extractor
from mbbq_gen.extraction.simple import SIMPLE_EXTRACTORS
from mbbq_gen.records import Extraction
from tests.extraction_cases import CORE, LANGUAGES, Case, load_cases

Reader = Callable[[Case], Extraction]


def main() -> None:
    parser = argparse.ArgumentParser(description="How the development set is read.")
    parser.add_argument("--extractor", default="engine", choices=["engine", *SIMPLE_EXTRACTORS])
    parser.add_argument("--misses", action="store_true", help="print every case that is read otherwise")
    parser.add_argument("--family", help="only this family")
    parser.add_argument("--language", choices=LANGUAGES, help="only this language")
    arguments = parser.parse_args()
    read = reader(arguments.extractor)
    languages = (arguments.language,) if arguments.language else CORE
    counts: Counter[tuple[str, str, str]] = Counter()
    levels: Counter[tuple[str, bool]] = Counter()
    for case in load_cases(languages):
        if arguments.family and case.family != arguments.family:
            continue
        extraction = read(case)
        kind = verdict(case, extraction)
        for language in (case.language, "all"):
            for family in (case.family, "TOTAL"):
                counts[language, family, kind] += 1
        levels[extraction.confidence, extraction.option == case.gold] += 1
        if case.gold == case.unknown_index:
            counts["all", "UNKNOWN", "person" if extraction.option not in {None, case.gold} else "other"] += 1
        if arguments.misses and kind not in {"right", "quiet"}:
            print(f"{kind:7} {case.language} {case.family} {case.name} gold={case.gold} got={extraction.option}")
            print(f"        {case.response!r}\n        {case.options} {extraction}")
    print_table(counts, (*languages, "all"))
    print_levels(levels, counts)


def reader(name: str) -> Reader:
    """The reader of that name, for a case."""
    if name == "engine":
        return lambda case: load_extractor(case.language).extract(case.response, case.question)
    simple = SIMPLE_EXTRACTORS[name]
    return lambda case: simple(case.response, case.question)


def verdict(case: Case, extraction: Extraction) -> str:
    """right, wrong or missed for a case with an answer; quiet or false for one without."""
    if case.gold is None:
        return "quiet" if extraction.option is None else "false"
    if extraction.option == case.gold:
        return "right"
    return "missed" if extraction.option is None else "wrong"


def print_table(counts: Counter[tuple[str, str, str]], languages: tuple[str, ...]) -> None:
    families = sorted({family for _, family, _ in counts} - {"TOTAL", "UNKNOWN"})
    print(f"{'family':20}" + "".join(f"{language:>22}" for language in languages) + f"{'n':>6}")
    for family in [*families, "TOTAL"]:
        cells = "".join(f"{cell(counts, language, family):>22}" for language in languages)
        total = sum(count for (language, name, _), count in counts.items() if language == "all" and name == family)
        print(f"{family:20}{cells}{total:>6}")


def cell(counts: Counter[tuple[str, str, str]], language: str, family: str) -> str:
    right, wrong, missed, quiet, false = (
        counts[language, family, kind] for kind in ("right", "wrong", "missed", "quiet", "false")
    )
    answered, none = right + wrong + missed, quiet + false
    if not answered + none:
        return "–"
    correct = 100 * (right + quiet) / (answered + none)
    parts = [f"{correct:.1f}", share(wrong, answered), share(missed, answered), share(false, none)]
    return "/".join(parts)


def share(count: int, total: int) -> str:
    return f"{100 * count / total:.1f}" if total else "–"


def print_levels(levels: Counter[tuple[str, bool]], counts: Counter[tuple[str, str, str]]) -> None:
    for level in ("high", "medium", "low"):
        right, wrong = levels[level, True], levels[level, False]
        print(f"confidence {level}: {right} of {right + wrong} as expected")
    person, other = counts["all", "UNKNOWN", "person"], counts["all", "UNKNOWN", "other"]
    print(f"unknown read as a person: {person} of {person + other} ({share(person, person + other)} %)")


if __name__ == "__main__":
    main()
