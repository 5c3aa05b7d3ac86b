"""How long a million answers take: from columns to a table, and from the table to scores with intervals.

    python benches/bench_scoring.py [ANSWERS]

10 models answer the same questions of 144 templates in 4 languages and 6 categories, in 5 variants; scored by model ×
language × category × variant (1,200 groups), all metrics, 2,000 resamples. Prints seconds and the peak of memory.
"""

from __future__ import annotations

import itertools
import resource
import sys
import time

import numpy as np
import polars as pl

from mbbq_gen.analysis.scores import score
from mbbq_gen.core.records import Alignment, Condition, Instance, Option, Polarity
from mbbq_gen.scoring.observations import observations_from_columns

MODELS, LANGUAGES, CATEGORIES, VARIANTS, TEMPLATES = 10, ("en", "es", "nl", "tr"), 6, 5, 24
KINDS: tuple[tuple[Condition, Polarity, Alignment | None], ...] = (
    ("ambiguous", "negative", None),
    ("ambiguous", "non_negative", None),
    ("disambiguated", "negative", "biased"),
    ("disambiguated", "non_negative", "counter_biased"),
)


def make_instances(number: int) -> list[Instance]:
    """About that many questions, evenly over languages, categories, templates and kinds."""
    cells = list(itertools.product(LANGUAGES, range(CATEGORIES), range(TEMPLATES), KINDS))
    each = max(1, round(number / len(cells)))
    return [
        make_instance(language, category, template, kind, item)
        for language, category, template, kind in cells
        for item in range(each)
    ]


def make_instance(
    language: str, category: int, template: int, kind: tuple[Condition, Polarity, Alignment | None], item: int
) -> Instance:
    condition, polarity, _ = kind
    return Instance(
        benchmark="bench",
        version="1",
        split="bias",
        language=language,
        instance_id=f"{category}/{template}/{condition}/{polarity}/{item}",
        parallel_id=f"{category}/{template}/{condition}/{polarity}/{item}",
        template_id=f"{category}/{template}",
        category=f"category {category}",
        condition=condition,
        polarity=polarity,
        context=f"Context {item} of template {template}.",
        question="Who was it?",
        options=(
            Option(role="target", text="One", group="one"),
            Option(role="non_target", text="The other", group="other"),
            Option(role="unknown", text="Not known"),
        ),
        gold_role="unknown" if condition == "ambiguous" else "target",
    )


def make_answers(instances: list[Instance], answers: int) -> pl.DataFrame:
    """Answers as a run store gives them."""
    generator = np.random.default_rng(1)
    grid = pl.DataFrame({"instance_key": [instance.key for instance in instances]}).join(
        pl.DataFrame({"model": [f"model {number}" for number in range(MODELS)]}), how="cross"
    )
    grid = grid.join(pl.DataFrame({"variant": [f"variant {number}" for number in range(VARIANTS)]}), how="cross")
    grid = grid.head(answers)
    orders = np.array(["[0,1,2]", "[1,2,0]", "[2,0,1]", "[0,2,1]", "[1,0,2]", "[2,1,0]"])
    option = generator.integers(0, 3, grid.height)
    read = generator.random(grid.height) < 0.97
    return grid.with_columns(
        label_style=pl.lit("A"),
        option_order=pl.Series(orders[generator.integers(0, 6, grid.height)]),
        outcome=pl.Series(np.where(read, "option", "unparsed")),
        option=pl.Series(option).replace_strict([0, 1, 2], [0, 1, 2], return_dtype=pl.Int8),
        confidence=pl.lit("high"),
        extractor=pl.lit("x1"),
    )


def main() -> None:
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    instances = make_instances(wanted // (MODELS * VARIANTS))
    answers = make_answers(instances, wanted)
    start = time.perf_counter()
    frame = observations_from_columns(instances, answers)
    built = time.perf_counter()
    table = score(frame, ["model", "language", "category", "variant"])
    done = time.perf_counter()
    print(f"{frame.height:,} answers to {len(instances):,} questions; {len(table.groups):,} groups")
    print(f"table {built - start:.1f} s, scores {done - built:.1f} s, together {done - start:.1f} s")
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB")


if __name__ == "__main__":
    main()
