"""Simulated fits of models: variance components, scores corrected by annotations, what `power` and `design` promise.

Run by `simulate_all.py`, which says what each table shows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import numpy as np
from simulated import ALL_SIZES, BIAS, CODES, Array, Generator, Grid, Held, Model, draw_sizes, head, panel_of, row

from mbbq_gen.analysis.design import Components, DesignSearch, DesignSpace, Price
from mbbq_gen.analysis.power import QUESTION_SHARE, VarianceAssumptions, power_table
from mbbq_gen.annotation.review import allocate
from mbbq_gen.scoring.cells import CELLS
from mbbq_gen.scoring.metrics import METRICS
from mbbq_gen.statistics.estimate import InferenceSettings
from mbbq_gen.statistics.ppi import AnnotatedCells, PPIGroup, correct, usual_error_rate
from mbbq_gen.statistics.variance_components import Cells, estimate_components

# --- variance components ---------------------------------------------------------------------------------------------

COMPONENTS = {
    ("template",): 0.15,
    ("language",): 0.08,
    ("variant",): 0.04,
    ("template", "language"): 0.05,
    ("template", "variant"): 0.04,
    ("language", "variant"): 0.02,
    ("template", "language", "variant"): 0.03,
}
"""Terms → standard deviation of their effects."""


def components(grid: Grid) -> None:
    """Estimates and coverage of variance components: 4 languages, 5 prompt variants, one answer has the sd 0.7."""
    found_in = ("40 equal templates", "98 of MBBQ's sizes")
    head("component", "true sd", *(f"{name}: sd, its error, coverage" for name in found_in))
    columns: list[list[str]] = []
    for sizes, templates in (("equal", 40), ("MBBQ", 98)):
        generator = np.random.default_rng([8, templates])
        places = np.array(list(product(range(templates), range(4), range(5))))
        codes = {
            term: np.unique(
                places[:, [("template", "language", "variant").index(name) for name in term]],
                axis=0,
                return_inverse=True,
            )[1].reshape(-1)
            for term in COMPONENTS
        }
        inside, variances = np.zeros(len(COMPONENTS)), []
        for _ in range(grid.runs):
            answers = draw_sizes(sizes, 1, templates, generator)[0][places[:, 0]].astype(float)
            values = generator.normal(0, 0.7, len(places)) / answers**0.5
            for term, sd in COMPONENTS.items():
                values += generator.normal(0, sd, codes[term].max() + 1)[codes[term]]
            found = estimate_components(Cells(values, codes, 0.49, answers))
            variances.append([found[term][0] for term in COMPONENTS])
            for place, (term, sd) in enumerate(COMPONENTS.items()):
                _, low, high = found[term]
                inside[place] += low is not None and high is not None and low <= sd <= high
        sds, true = np.sqrt(variances), np.array([*COMPONENTS.values()])
        errors, means = ((sds - true) ** 2).mean(axis=0) ** 0.5, np.mean(variances, axis=0) ** 0.5
        columns.append(
            [f"{m:.3f}, {e:.3f}, {100 * i / grid.runs:.1f}" for m, e, i in zip(means, errors, inside, strict=True)]
        )
    for place, (term, sd) in enumerate(COMPONENTS.items()):
        row(" × ".join(term), f"{sd:g}", *(column[place] for column in columns))


# --- scores corrected by annotations ---------------------------------------------------------------------------------

ERRORS = np.array([[0.0, 0.4, 0.3, 0.3], [0.4, 0.0, 0.3, 0.3], [0.7, 0.1, 0.0, 0.2], [0.5, 0.3, 0.2, 0.0]])
"""By what an answer says: what it is taken for when it is extracted wrongly; "unknown" mostly for the biased person."""
CONFIDENCE = np.array([[0.75, 0.17, 0.08], [0.25, 0.35, 0.40]])
"""High, medium, low: of right and of wrong extractions."""
CORRECTED = ("accuracy_ambiguous", "mbbq_bias_ambiguous", "diff_bias_disambiguated", "bbq_s_dis")


def pick(generator: Generator, chances: Array) -> Array:
    """One place a row, by the row's chances."""
    ladder = np.cumsum(chances, axis=1)
    return (generator.random((len(chances), 1)) * ladder[:, -1:] > ladder).sum(axis=1)


def annotated(
    model: Model, sizes: Array, errors: tuple[float, ...], labels: int, generator: Generator
) -> list[PPIGroup]:
    """Extracted answers of each language, so many of which are labelled in each, drawn as `mbbq-gen annotate` does."""
    languages, templates = len(errors), sizes.size
    counts = model.draw(sizes[None], (1.0,) * languages, generator)[0][..., CODES].astype(int)
    language, template, context, said = (np.repeat(part.ravel(), counts.ravel()) for part in np.indices(counts.shape))
    wrong = generator.random(said.size) < np.array(errors)[language]
    read = np.where(wrong, pick(generator, ERRORS[said]), said)
    confidence = pick(generator, CONFIDENCE[wrong.astype(int)])
    strata = (language * 2 + (read == 3)) * 3 + confidence
    stratum_sizes = np.bincount(strata, minlength=6 * languages)
    shares = allocate(
        {(str(place),): int(size) for place, size in enumerate(stratum_sizes) if size}, labels * languages
    )
    drawn = np.array([shares.get((str(place),), 0) for place in range(stratum_sizes.size)])
    order = np.lexsort((generator.random(strata.size), strata))
    rank = np.empty(strata.size, dtype=int)
    rank[order] = np.arange(strata.size) - np.repeat(np.cumsum(stratum_sizes) - stratum_sizes, stratum_sizes)
    chosen = np.flatnonzero(rank < drawn[strata])
    weight = (stratum_sizes / np.maximum(drawn, 1))[strata[chosen]]
    rate, kind = usual_error_rate(wrong[chosen], weight), np.array([0, 0, 1, 2])[read] * 3 + confidence
    groups = []
    for place in range(languages):
        mine, kept = language == place, (language == place)[chosen]
        which = chosen[kept]
        cells, classes = np.zeros((templates, len(CELLS))), np.zeros((templates, 9))
        np.add.at(cells, (template[mine], CODES[context[mine], read[mine]]), 1.0)
        np.add.at(classes, (template[mine], kind[mine]), 1.0)
        labelled = AnnotatedCells(
            read=CODES[context[which], read[which]],
            right=CODES[context[which], said[which]],
            template=template[which],
            kind=kind[which],
            weight=weight[kept],
        )
        names = tuple((str(place), what, level) for what in ("person", "unknown", "none") for level in ("h", "m", "l"))
        groups.append(PPIGroup(cells, np.zeros_like(cells), names, classes, labelled, rate))
    return groups


def corrected(grid: Grid) -> None:
    """Coverage of corrected scores and of their difference between languages, where it is 0; widths against plain."""
    models = {
        "ordinary": Model((0.55,) * 2, (0.2,) * 2, 0.4, 0.1),
        "strong": Model((0.98,) * 2, (0.75,) * 2, 0.97, 0.1),
    }
    shapes = (("equal", 15), ("equal", 40), ("MBBQ", 98))
    runs, sampling = max(grid.runs // 3, 10), InferenceSettings(n_resamples=600)
    head("model", "extracted wrongly", *(f"{count} labels: score, difference, width" for count in (50, 100, 400)))
    for (name, model), rate in product(models.items(), (0.0, 0.01, 0.05, 0.15)):
        truths, columns = {metric: model.truth(METRICS[metric]) for metric in CORRECTED}, []
        for labels in (50, 100, 400):
            found: defaultdict[tuple[str, int, str], Held] = defaultdict(Held)
            for sizes, templates in shapes:
                generator = np.random.default_rng([templates, labels, round(1000 * rate), grid.runs])
                for _ in range(runs):
                    drawn = draw_sizes(sizes, 1, templates, generator)[0]
                    groups = annotated(model, drawn, (rate, rate), labels, generator)
                    panel = panel_of(np.stack([group.cells for group in groups]), sampling)
                    for metric in CORRECTED:
                        plain = panel.estimates(METRICS[metric])
                        both = zip(groups, plain, strict=True)
                        one, other = (correct(METRICS[metric], group, "discard", part) for group, part in both)
                        found["score", templates, metric].add(one.interval(0.95), truths[metric])
                        found["difference", templates, metric].add(one.minus(other).interval(0.95), 0.0)
                        found["plain", templates, metric].add(plain[0].interval(0.95), truths[metric])
            keys = list(product((templates for _, templates in shapes), CORRECTED))
            parts = [[found[what, *key].rate for key in keys] for what in ("score", "difference")]
            wider = [found["score", *key].width / found["plain", *key].width for key in keys]
            means = [f"{np.mean(part):.1f} ({min(part):.1f})" for part in parts]
            columns.append(f"{', '.join(means)}, {np.mean(wider):.2f}")
        row(name, f"{rate:.0%}", *columns)


# --- what `power` and `design` promise -------------------------------------------------------------------------------

NAMED = 0.56
"""How often a person is named."""


@dataclass(frozen=True)
class Benchmark:
    """A benchmark and its questions."""

    name: str
    sizes: Array
    """Ambiguous questions of each template."""
    variants: int
    sd: tuple[float, float, float] = (0.12, 0.1, 0.05)
    """Of template, template × language, template × prompt variant, in units of the score."""
    variant_sd: float = 0.0
    """Of prompt variants, and of language × prompt variant; above 0: they are random."""

    def draw(self, effects: tuple[float, ...], runs: int, share: float, generator: Generator) -> Array:
        """Cells of runs × languages × templates × prompt variants, every question once in each variant.

        Two answers to one question are correlated by `share`: with probability √share an answer is one that belongs to
        the question, whatever the prompt variant, else it is drawn anew.
        """
        languages, templates, variants = len(effects), self.sizes.size, self.variants
        template, crossed, worded = self.sd
        mean = generator.normal(0, template, (runs, 1, templates, 1))
        mean = mean + generator.normal(0, crossed, (runs, languages, templates, 1))
        mean = mean + np.array(effects)[:, None, None]
        moved = generator.normal(0, worded, (runs, 1, templates, variants))
        moved = moved + generator.normal(0, self.variant_sd, (runs, 1, 1, variants))
        moved = moved + generator.normal(0, self.variant_sd, (runs, languages, 1, variants))
        anew = np.clip(mean + moved / (1 - share**0.5), -NAMED, NAMED)
        mean = np.clip(mean, -NAMED, NAMED)
        owner = np.repeat(np.arange(templates), self.sizes)
        shape = (runs, languages, owner.size, variants)
        own = generator.random((*shape[:3], 1))
        is_own, draws = generator.random(shape) < share**0.5, generator.random(shape)
        draws, chances = np.where(is_own, own, draws), np.where(is_own, mean[:, :, owner], anew[:, :, owner])
        chosen = 0 + (draws > (NAMED + chances) / 2) + (draws > NAMED)
        cells = np.zeros((runs, languages, templates, variants, len(CELLS)))
        starts = np.cumsum(self.sizes) - self.sizes
        for place in range(3):
            cells[..., CODES[0, place]] = np.add.reduceat(chosen == place, starts, axis=2)
        return cells

    @property
    def assumptions(self) -> VarianceAssumptions:
        """What is true of it."""
        template, crossed, worded = self.sd
        answer = (NAMED - template**2 - crossed**2 - worded**2) ** 0.5
        return VarianceAssumptions(
            template=template,
            template_language=crossed,
            prompt_variant=2**0.5 * self.variant_sd,
            template_prompt_variant=worded,
            language_prompt_variant=self.variant_sd,
            answer=answer,
            source="true",
        )


def promises(grid: Grid) -> None:
    """How often the difference is found that `power` says is found in 80 %."""
    generator, equal = np.random.default_rng(5), np.full(24, 12)
    kobbq = np.clip(np.round(generator.normal(4.2, 0.93, 269)), 1, None).astype(int)
    shapes = (("starter", equal, 1), ("starter", equal, 5), ("MBBQ", ALL_SIZES, 1), ("MBBQ", ALL_SIZES, 3))
    benchmarks = [Benchmark(*shape) for shape in (*shapes, ("KoBBQ", kobbq, 1))]
    benchmarks += [Benchmark("starter", equal, number, variant_sd=0.03) for number in (5, 12)]
    head("benchmark", "prompt variants", "question", "detectable difference", "found")
    other = {"starter, 0.5 × sd": (0.06, 0.05, 0.025), "starter, 1.5 × sd": (0.18, 0.15, 0.075)}
    parts, generator = [(bench, generator) for bench in benchmarks], np.random.default_rng(6)
    parts += [(Benchmark(name, equal, 1, sd), generator) for name, sd in other.items()]
    for bench, draws in parts:
        is_random = bench.variant_sd > 0
        sampling = InferenceSettings(n_resamples=1000, prompt_effects="random" if is_random else "fixed")
        table = power_table(
            "mine",
            bench.sizes.size,
            bench.variants,
            questions=float(bench.sizes.mean()),
            effective_share=float(bench.sizes.sum() ** 2 / (bench.sizes**2).sum() / bench.sizes.size),
            assumptions=bench.assumptions,
            prompt_effects=sampling.prompt_effects,
        )
        for entry, short in zip(table.detectable, ("score", "languages", "variants"), strict=True):
            size, found = entry.minimum_detectable_effect, 0
            is_score, by_variant = entry.question == "one score against 0", entry.question == "two prompt variants"
            if size is None or (by_variant and (is_random or bench.variants == 1)):
                continue
            effects = (size,) if is_score else (0.05,) if by_variant else (size / 2, -size / 2)
            for start in range(0, grid.runs, 20):
                cells = bench.draw(effects, min(20, grid.runs - start), QUESTION_SHARE, draws)
                groups = np.moveaxis(cells[:, 0, :, :2], 2, 1) if by_variant else cells.sum(axis=3)
                crossed = cells.reshape(-1, *cells.shape[2:]) if is_random else None
                estimates = panel_of(groups.reshape(-1, *groups.shape[2:]), sampling, crossed).estimates(BIAS)
                for run in range(len(cells)):
                    own = estimates[run * groups.shape[1] : (run + 1) * groups.shape[1]]
                    gap = own[0] if is_score else own[0].subtract(own[1])
                    ends = gap.interval(0.95)
                    shift = size if by_variant else 0.0
                    found += ends is not None and (ends[0] + shift > 0 or ends[1] + shift < 0)
            variants = f"{bench.variants}, random" if is_random else bench.variants
            row(bench.name, variants, short, f"{size:.3f}", f"{100 * found / grid.runs:.1f}")


def widths(grid: Grid) -> None:
    """Widths that `design` predicts, and those of simulated runs of 98 templates, which count alike."""
    head("questions of each template", "prompt variants of a question", "requests", "width as predicted", "simulated")
    generator, runs = np.random.default_rng(10), max(grid.runs // 4, 10)
    for questions, each in ((4, 1), (8, 1), (32, 1), (4, 5)):
        bench = Benchmark("", np.full(98, questions), each)
        components = Components(assumptions=bench.assumptions, question_share=QUESTION_SHARE, question_source="true")
        space = DesignSpace((questions,) * 98, each, 1, 1)
        found = DesignSearch("score", components, space, Price(online=None, batch=None)).at(98, questions, each, each)
        held = Held()
        for start in range(0, runs, 20):
            cells = bench.draw((0.1,), min(20, runs - start), QUESTION_SHARE, generator).sum(axis=3)[:, 0]
            for estimate in panel_of(cells, InferenceSettings(n_resamples=1000)).estimates(BIAS):
                held.add(estimate.interval(0.95), 0.1)
        row(questions, each, f"{found.requests:,}", f"{found.width:.3f}", f"{held.width:.3f}")


TABLES: dict[str, Callable[[Grid], None]] = {
    "components": components,
    "corrected": corrected,
    "promises": promises,
    "widths": widths,
}
