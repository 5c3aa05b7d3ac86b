"""Rebuilds MBBQ's published control split from its bias split, with the names of the published rows.

    python benches/rebuild_control.py PATH [--languages en,nl,es,tr] [--templates unseen] [--show CLASS] [--json FILE]

PATH is a checkout of Veranep/MBBQ. For every distinct context, question and option of the published control split, the
bias questions of the same template and version are rewritten with the two names of the published row. Counted is what
comes out letter by letter as published; every difference has a class, and the classes say whose it is.

A third of the templates, drawn by their id, is kept unseen: the grammar is mended by looking at the others alone, and
`--show` prints of the others alone. So the figure for the unseen ones tells how it does on new texts.
"""

from __future__ import annotations

import argparse
import difflib
import json
import re
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from statistics import fmean

from mbbq_gen.datasets.mbbq import load_mbbq
from mbbq_gen.languages import NameGender, read_control_set
from mbbq_gen.records import Instance
from mbbq_gen.resources import Resources
from mbbq_gen.seeding import stable_number
from mbbq_gen.substitution.mention import NotReplaceableError
from mbbq_gen.substitution.plan import Plan, write
from mbbq_gen.substitution.questions import ControlMaker, people_of


@dataclass(frozen=True)
class Class:
    """What a difference is."""

    whose: str
    """theirs: the published row has a fault or other words; either: two right ways, or it can't be told; ours."""
    means: str


CLASSES = {
    "exact": Class("exact", "as published, letter by letter"),
    "blanks": Class("theirs", "blanks, capitals, quotes or dashes alone differ: published typing"),
    "suffix": Class("theirs", "the ending of a name is that of the word it replaced (Asel'in for Asel'ın)"),
    "y before i": Class("theirs", "y Izan for e Izan"),
    "edited": Class("theirs", "other words, about neither person, than any bias row has"),
    "several": Class("theirs", "several of these at once"),
    "other gender": Class("theirs", "a word about a name keeps the gender of the word replaced (Sofía es olvidadizo)"),
    "pronoun": Class("either", "pronouns are neutral in the one, follow the names in the other"),
    "agreement": Class("either", "words agree otherwise with the names' gender; published rows do it now and then"),
    "introduced": Class("either", "the published text keeps or adds words that bring a name in (one who was, called)"),
    "several ways": Class("either", "several of these, or of these and theirs, at once"),
    "elsewhere": Class("ours", "other words than names differ, and no rule tells whose difference it is"),
    "wording": Class("ours", "the people are told of otherwise"),
    "left_out": Class("ours", "refused, with a reason"),
    "judged theirs": Class("theirs", "rebuild_control_judged.toml says why"),
    "judged either": Class("either", "rebuild_control_judged.toml says why"),
}
JUDGED = {
    (entry["language"], template, kind): f"judged {entry['whose']}"
    for entry in tomllib.loads(Path(__file__).with_name("rebuild_control_judged.toml").read_text("utf-8"))["judged"]
    for template in entry["templates"]
    for kind in entry["classes"]
}
"""Language, template, class → the class that a reader gave."""


OWNERS = ("exact", "theirs", "either", "ours")


@dataclass(frozen=True)
class Wanted:
    """A published text to be rebuilt."""

    text: str
    names: tuple[str, str]
    gender: NameGender


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path)
    parser.add_argument("--languages", default="en,nl,es,tr")
    parser.add_argument("--templates", default="all", choices=["all", "seen", "unseen"], help="which templates")
    parser.add_argument("--show", default="", help="print the differences of this class (or `all`)")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if arguments.show and arguments.templates == "all":
        arguments.templates = "seen"
    results = {
        language: rebuild(arguments.path, language, arguments.templates, arguments.show)
        for language in arguments.languages.split(",")
    }
    for language, (parts, means) in results.items():
        for part, counts in parts.items():
            told = ", ".join(f"{name} {count}" for name, count in counts.most_common())
            whose = Counter[str]()
            for name, count in counts.items():
                whose[CLASSES[name].whose] += count
            consistent = whose["exact"] / max(counts.total() - whose["theirs"], 1)
            shares = "  ".join(f"{who} {whose[who] / max(counts.total(), 1):6.1%}" for who in OWNERS)
            mean = f"mean over templates {means[part]:6.1%}  " if part in means else ""
            whole = f"{language}  {part:<9} {counts.total():>6}  {shares}  of what is not theirs {consistent:6.1%}"
            print(f"{whole}  {mean} {told}")
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def is_unseen(template: str) -> bool:
    """Whether a template is one of the third that nobody looks at."""
    return stable_number("held out", template) % 3 == 0


def rebuild(path: Path, language: str, templates: str, show: str) -> tuple[dict[str, Counter[str]], dict[str, float]]:
    """Part → class → distinct published texts; and the exact share of each part, the mean over templates."""
    shares: dict[tuple[str, str], list[bool]] = defaultdict(list)
    maker = ControlMaker(read_control_set(Resources(), language))
    bias, control = (_by_template(load_mbbq(path, language, split)) for split in ("bias", "control"))
    parts: dict[str, Counter[str]] = {"contexts": Counter(), "questions": Counter(), "options": Counter()}
    for key, published in control.items():
        if templates != "all" and is_unseen(key[0]) != (templates == "unseen"):
            continue
        for part, field in (("contexts", "context"), ("questions", "question")):
            if part == "contexts" and key[-1] != "negative":
                continue  # both questions of a pair are about the same context
            sources = dict.fromkeys((getattr(row, field), people_of(row)) for row in bias[key])
            plans, reasons = _plans(maker, sources, field)
            for wanted in dict.fromkeys(_wanted(row, field) for row in published):
                kind, made = _classify(maker, wanted, plans, reasons)
                kind = JUDGED.get((language, key[0], kind), kind)
                parts[part][kind] += 1
                shares[part, key[0]].append(kind == "exact")
                if show in (kind, "all") and kind != "exact":
                    print(f"{language} {'/'.join(key)} {kind}\n  published {wanted.text}\n  made      {made}")
    parts["options"] = _options(bias, control)
    means = {
        part: fmean(fmean(exact) for (of, _), exact in shares.items() if of == part)
        for part in ("contexts", "questions")
    }
    return parts, means


def _by_template(instances: Iterable[Instance]) -> dict[tuple[str, ...], list[Instance]]:
    found: dict[tuple[str, ...], list[Instance]] = defaultdict(list)
    for row in instances:
        version = str(row.metadata.get("version") or "")
        found[row.template_id, version, row.condition, row.polarity].append(row)
    return found


def _wanted(row: Instance, field: str) -> Wanted:
    gender: NameGender = "f" if row.metadata["gender"] == "female" else "m"
    return Wanted(getattr(row, field), tuple(sorted(people_of(row))), gender)  # type: ignore[arg-type]


def _plans(
    maker: ControlMaker, sources: Iterable[tuple[str, tuple[str, str]]], field: str
) -> tuple[list[Plan], Counter[str]]:
    plans, reasons = [], Counter[str]()
    for text, options in sources:
        try:
            plans.append((maker.plan if field == "context" else maker.question_plan)(text, options))
        except NotReplaceableError as left:
            reasons[left.reason] += 1
    return plans, reasons


def _classify(maker: ControlMaker, wanted: Wanted, plans: list[Plan], reasons: Counter[str]) -> tuple[str, str]:
    """The class of a published text, and what was made instead."""
    sources = dict(_made(maker, wanted, plans))
    made = list(sources)
    if wanted.text in made:
        return "exact", wanted.text
    if not made:
        return "left_out", ", ".join(reasons)
    by_class: dict[str, str] = {}
    for text in made:
        by_class.setdefault(_difference(text, wanted, maker.control_set.meta.language, sources[text]), text)
    kind = next(name for name in CLASSES if name in by_class)
    nearest = max(made, key=lambda text: _likeness(text, wanted.text)) if kind == "wording" else by_class[kind]
    if kind == "wording" and reasons:
        return "left_out", f"{', '.join(reasons)}; nearest: {nearest}"
    return kind, nearest


def _likeness(one: str, other: str) -> float:
    return difflib.SequenceMatcher(None, one.split(), other.split(), autojunk=False).ratio()


def _made(maker: ControlMaker, wanted: Wanted, plans: list[Plan]) -> Iterator[tuple[str, str]]:
    """What the plans make of the names, both ways round, with the bias text that it was made of."""
    for plan in plans:
        source = "".join(piece if isinstance(piece, str) else piece.was for piece in plan.pieces)
        for names in (wanted.names, wanted.names[::-1]):
            yield write(plan, names, wanted.gender, maker.control_set), source


_PRONOUNS = frozenset(
    [
        "he",
        "she",
        "they",
        "him",
        "her",
        "them",
        "his",
        "their",
        "himself",
        "herself",
        "themself",
        "themselves",
        "he's",
        "they're",
        "was",
        "were",
        "is",
        "are",
        "does",
        "do",
        "zijn",
        "haar",
        "hun",
        "hij",
        "ze",
        "hen",
        "heeft",
        "hebben",
        "die",
        "zich",
    ]
)


_INTRODUCED = frozenset(
    [
        "a",
        "an",
        "one",
        "the",
        "other",
        "who",
        "s",
        "is",
        "was",
        "were",
        "called",
        "named",
        "student",
        "teacher",
        "neighbor",
        "vecino",
        "now",
        "nu",
        "ahora",
        "estaba",
        "of",
        "whom",
        "de",
        "een",
        "ene",
        "andere",
        "die",
        "genaamd",
        "heet",
        "heette",
        "tweede",
        "kandidaat",
        "el",
        "la",
        "lo",
        "un",
        "una",
        "uno",
        "otro",
        "otra",
        "que",
        "es",
        "era",
        "se",
        "llamaba",
        "llama",
        "biri",
        "diğeri",
        "adı",
        "olan",
        "bir",
    ]
)


def _difference(made: str, wanted: Wanted, language: str, source: str) -> str:
    """The class of a difference."""
    if _plain(made) == _plain(wanted.text):
        return "blanks"
    if language == "tr" and _bare(made, wanted.names) == _bare(wanted.text, wanted.names):
        return "suffix"
    kind = _of_words(_plain(made), wanted, _plain(source), _plain(wanted.text))
    if CLASSES[kind].whose != "ours" or language != "tr":
        return kind
    bare = _of_words(_bare(made, wanted.names), wanted, _plain(source), _bare(wanted.text, wanted.names))
    return kind if CLASSES[bare].whose == "ours" else "several"


def _of_words(made: str, wanted: Wanted, source: str, published: str) -> str:
    """The class of the words that differ; of several classes, whose they are together."""
    kinds = {
        _of_block(ours, theirs, wanted, set(source.split()))
        for ours, theirs in _changed(made.split(), published.split())
    }
    if len(kinds) == 1:
        return kinds.pop()
    whose = {CLASSES[kind].whose for kind in kinds}
    if "ours" in whose:
        return "wording" if "wording" in kinds else "elsewhere"
    return "several ways" if "either" in whose else "several"


def _of_block(ours: list[str], theirs: list[str], wanted: Wanted, there: set[str]) -> str:
    """The class of words that stand in the place of others."""
    if (ours, theirs) == (["e"], ["y"]):
        return "y before i"
    if set(ours) | set(theirs) <= _PRONOUNS:
        return "pronoun"
    if _agree(ours, theirs):
        return "other gender" if all(_is_of(word, wanted.gender) for word in ours) else "agreement"
    if {word.casefold() for name in wanted.names for word in name.split()} & {*ours, *theirs}:
        return "wording"
    if theirs and {*ours, *theirs} <= _INTRODUCED:
        return "introduced"
    return "edited" if set(ours) <= there and not (theirs and set(theirs) <= there) else "elsewhere"


def _changed(ours: list[str], theirs: list[str]) -> Iterator[tuple[list[str], list[str]]]:
    matcher = difflib.SequenceMatcher(None, ours, theirs, autojunk=False)
    for kind, a, b, c, d in matcher.get_opcodes():
        if kind != "equal":
            yield ours[a:b], theirs[c:d]


def _agree(ours: list[str], theirs: list[str]) -> bool:
    """Whether words differ in the vowel of their gender alone."""
    return len(ours) == len(theirs) and all(_neuter(a) == _neuter(b) for a, b in zip(ours, theirs, strict=True))


def _is_of(word: str, gender: NameGender) -> bool:
    """Whether a Spanish word is one about a man, or about a woman."""
    return word.rstrip("s").endswith("a") == (gender == "f")


def _neuter(word: str) -> str:
    word = {"el": "lo", "un": "uno", "primer": "primero", "tercer": "tercero"}.get(word, word)
    word = re.sub(r"(?<=[dstn])or(?:a|e(?=s))?(?=s?$)", "oro", word)  # profesor, profesora, profesores
    return re.sub(r"[oa](s?)$", r"_\1", word)


@lru_cache(maxsize=4096)
def _plain(text: str) -> str:
    text = re.sub(r"[^\w\s]", " ", text.casefold())
    text = re.sub(r"\b(a|de)l\b", r"\1 el", text)  # so that del and de la differ in the article
    return " ".join(text.split())


def _bare(text: str, names: tuple[str, str]) -> str:
    """The text without what is written onto a name."""
    for name in names:
        text = re.sub(
            rf"{re.escape(name)}\s*['’]?\s?(?=[^\W\d_]{{1,5}}\b)(?!ve\b|ne\b|ise\b|ile\b|için\b)[a-zçğıöşü]*",
            name,
            text,
        )
    return _plain(text)


def _options(
    bias: dict[tuple[str, ...], list[Instance]], control: dict[tuple[str, ...], list[Instance]]
) -> Counter[str]:
    """Names are options as they are; the unknown options are those of the bias rows."""
    unknown = {row.options[row.unknown_index].text for rows in bias.values() for row in rows}
    counts: Counter[str] = Counter()
    texts = {
        (option.text, option.role == "unknown") for rows in control.values() for row in rows for option in row.options
    }
    for text, is_unknown in texts:
        counts["exact" if not is_unknown or text in unknown else "wording"] += 1
    return counts


if __name__ == "__main__":
    main()
