"""The benchmarks by name: what they are, and how their instances are had. Readers are imported when they are used.

A reader of published files is a function `loader(folder, language, split)`; a benchmark that ships with us is
`loader(language, splits, resources)`. Both give instances one by one and raise for a missing file before the first one.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import chain
from pathlib import Path
from typing import Any, Final

from mbbq_gen.core.errors import UnknownNameError, UsageError
from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.records import Instance, Split


@dataclass(frozen=True)
class BenchmarkInfo:
    """What a benchmark is, without reading it."""

    name: str
    """What `--benchmark` takes."""
    title: str
    """One line for lists."""
    languages: tuple[str, ...]
    """ISO 639-1 codes, the original first."""
    splits: tuple[Split, ...]
    licence: str
    """As its authors state it."""
    citation: str
    """Authors, year, title, venue."""
    link: str
    """Where the data is published."""
    loader: str
    """`module:function`."""
    needs_data: bool = True
    """Whether the user must have the published files."""
    notice: str | None = None
    """What everyone who reports a result of it should know."""
    confounded_order: bool = False
    """Whether the published place of an option tells its role: asked so, a preference for a place looks like bias."""


def _starter_languages() -> tuple[str, ...]:
    """The languages that our own templates are written in: their files, English first."""
    folder = files("mbbq_gen.benchmarks").joinpath("starter_data")
    stems = {entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml")}
    return tuple(sorted(stems - {"templates"}, key=lambda code: (code != "en", code)))


_ESBBQ: Final = (
    "Ruiz-Fernández, Mina, Falcão, Vasquez-Reina, Sallés, Gonzalez-Agirre, Perez-de-Viñaspre (2025): EsBBQ and CaBBQ: "
    "The Spanish and Catalan Bias Benchmarks for Question Answering. arXiv 2507.11216"
)
_KOBBQ: Final = "Jin, Kim, Lee, Yoo, Oh, Lee (2024): KoBBQ: Korean Bias Benchmark for Question Answering. TACL 12"
_BENCHMARKS: Final = (
    BenchmarkInfo(
        name="starter",
        title="Our own small parallel templates, for trying the tool",
        languages=_starter_languages(),
        splits=("bias", "control"),
        licence="Apache-2.0",
        citation="The mbbq-gen authors: starter templates",
        link="ships with mbbq-gen",
        loader="mbbq_gen.benchmarks.templates.folders:load_starter",
        needs_data=False,
        notice="for trying the tool; not a validated instrument",
    ),
    BenchmarkInfo(
        name="mbbq",
        title="Multilingual BBQ: 98 templates whose stereotypes hold in four languages, with a control set",
        languages=("en", "nl", "es", "tr"),
        splits=("bias", "control"),
        licence="none stated (derived from BBQ, CC BY 4.0)",
        citation="Neplenbroek, Bisazza, Fernández (2024): MBBQ: A Dataset for Cross-Lingual Comparison of Stereotypes "
        "in Generative LLMs. COLM",
        link="https://github.com/Veranep/MBBQ",
        loader="mbbq_gen.benchmarks.readers.mbbq:load_mbbq",
        notice="62 of the 588 disambiguated Physical_appearance rows of each language and split have a wrong label",
    ),
    BenchmarkInfo(
        name="bbq",
        title="BBQ, the English original: eleven categories of stereotypes in the United States",
        languages=("en",),
        splits=("bias",),
        licence="CC BY 4.0",
        citation="Parrish, Chen, Nangia, Padmakumar, Phang, Thompson, Htut, Bowman (2022): BBQ: A Hand-Built Bias "
        "Benchmark for Question Answering. Findings of ACL",
        link="https://github.com/nyu-mll/BBQ",
        loader="mbbq_gen.benchmarks.readers.bbq:load_bbq",
        notice="68 of the 788 disambiguated Physical_appearance rows have a wrong label",
    ),
    BenchmarkInfo(
        name="esbbq",
        title="EsBBQ: ten categories of stereotypes in Spain, in Spanish",
        languages=("es",),
        splits=("bias",),
        licence="Apache-2.0",
        citation=_ESBBQ,
        link="https://github.com/langtech-bsc/EsBBQ-CaBBQ",
        loader="mbbq_gen.benchmarks.readers.esbbq:load_esbbq",
        notice="published order is target, other person, unknown: never ask in it; the unknown option is worded by us",
        confounded_order=True,
    ),
    BenchmarkInfo(
        name="cabbq",
        title="CaBBQ: ten categories of stereotypes in Spain, in Catalan",
        languages=("ca",),
        splits=("bias",),
        licence="Apache-2.0",
        citation=_ESBBQ,
        link="https://github.com/langtech-bsc/EsBBQ-CaBBQ",
        loader="mbbq_gen.benchmarks.readers.esbbq:load_cabbq",
        notice="published order is target, other person, unknown: never ask in it; the unknown option is worded by us",
        confounded_order=True,
    ),
    BenchmarkInfo(
        name="kobbq",
        title="KoBBQ's test set: twelve categories of stereotypes in Korea, one filling of each template",
        languages=("ko",),
        splits=("bias",),
        licence="MIT",
        citation=_KOBBQ,
        link="https://github.com/naver-ai/KoBBQ",
        loader="mbbq_gen.benchmarks.readers.kobbq:load_kobbq",
        confounded_order=True,
    ),
    BenchmarkInfo(
        name="kobbq_all",
        title="KoBBQ with all fillings of its templates",
        languages=("ko",),
        splits=("bias",),
        licence="MIT",
        citation=_KOBBQ,
        link="https://github.com/naver-ai/KoBBQ",
        loader="mbbq_gen.benchmarks.readers.kobbq:load_kobbq_all",
        confounded_order=True,
    ),
    BenchmarkInfo(
        name="bharatbbq",
        title="BharatBBQ: thirteen categories of stereotypes in India, in eight languages",
        languages=("en", "hi", "mr", "bn", "ta", "te", "or", "as"),
        splits=("bias",),
        licence="none stated",
        citation="Tomar, Sahoo, Bhattacharyya (2025): BharatBBQ: A Multilingual Bias Benchmark for Question Answering "
        "in the Indian Context. TACL",
        link="https://github.com/sahoonihar/BharatBBQ",
        loader="mbbq_gen.benchmarks.readers.bharatbbq:load_bharatbbq",
        notice="only the English rows are in its repository",
    ),
    BenchmarkInfo(
        name="gg_bbq",
        title="GG-BBQ: BBQ's gender category in German, with groups and with proper names",
        languages=("de",),
        splits=("bias",),
        licence="CC BY 4.0",
        citation="Satheesh, Klug, Beckh, Allende-Cid, Houben, Hassan (2025): GG-BBQ: German Gender Bias Benchmark for "
        "Question Answering. GeBNLP",
        link="https://github.com/shalakasatheesh/GG-BBQ",
        loader="mbbq_gen.benchmarks.readers.gg_bbq:load_gg_bbq",
        notice="subset 2 has three times as many counter-biased as biased contexts: read rates, not counts",
        confounded_order=True,
    ),
    BenchmarkInfo(
        name="basqbbq",
        title="BasqBBQ: eight categories of BBQ in Basque",
        languages=("eu",),
        splits=("bias",),
        licence="CC BY-NC-SA 4.0",
        citation="Saralegi, Zulaika (2025): BasqBBQ: A QA Benchmark for Assessing Social Biases in LLMs for Basque, a "
        "Low-Resource Language. COLING",
        link="https://github.com/orai-nlp/BasqBBQ",
        loader="mbbq_gen.benchmarks.readers.basqbbq:load_basqbbq",
        notice="not for commercial use; 58 disambiguated Itxura_fisikoa rows have a wrong label",
    ),
    BenchmarkInfo(
        name="cbbq",
        title="CBBQ: fourteen categories of bias in China, in Chinese",
        languages=("zh",),
        splits=("bias",),
        licence="CC BY-SA 4.0",
        citation="Huang, Xiong (2024): CBBQ: A Chinese Bias Benchmark Dataset Curated with Human-AI Collaboration for "
        "Large Language Models. LREC-COLING",
        link="https://github.com/YFHuangxxxx/CBBQ",
        loader="mbbq_gen.benchmarks.readers.cbbq:load_cbbq",
        notice="groups are not published, targets are concluded from the labels; all disambiguated contexts are "
        "counter-biased",
        confounded_order=True,
    ),
    BenchmarkInfo(
        name="pakbbq",
        title="PakBBQ: eight categories of stereotypes in Pakistan, in English and Urdu",
        languages=("en", "ur"),
        splits=("bias",),
        licence="none stated",
        citation="Hashmat, Mirza, Raza (2025): PakBBQ: A Culturally Adapted Bias Benchmark for QA. EMNLP",
        link="https://github.com/Hashmat02/PakBBQ-Bias-Benchmarking-QA-Dataset",
        loader="mbbq_gen.benchmarks.readers.pakbbq:load_pakbbq",
        notice="groups are inconsistent: some rows have no single target, and some labels contradict each other",
    ),
    BenchmarkInfo(
        name="jbbq",
        title="JBBQ: five categories of BBQ in Japanese",
        languages=("ja",),
        splits=("bias",),
        licence="CC BY 4.0, redistribution prohibited",
        citation="Yanaka, Han, Kumon, Lu, Takeshita, Sekizawa, Kato, Arai (2025): JBBQ: Japanese Bias Benchmark for "
        "Analyzing Social Biases in Large Language Models. GeBNLP",
        link="https://github.com/ynklab/JBBQ_data",
        loader="mbbq_gen.benchmarks.readers.jbbq:load_jbbq",
        notice="sent by its authors on request; this reader was written without the files",
    ),
    BenchmarkInfo(
        name="bbg",
        title="BBG's contexts asked outright: nine categories in English, twelve in Korean",
        languages=("en", "ko"),
        splits=("bias",),
        licence="MIT",
        citation="Jin, Kang, Myung, Oh (2025): Social Bias Benchmark for Generation: A Comparison of Generation and "
        "QA-Based Evaluations. Findings of ACL",
        link="https://github.com/jinjh0123/BBG",
        loader="mbbq_gen.benchmarks.readers.bbg:load_bbg",
        notice="BBG lets a model continue a story; asking its questions outright is another task, with other scores",
    ),
    BenchmarkInfo(
        name="bbq_lite",
        title="The SES category of BBQ as BIG-bench has it, in an early edition",
        languages=("en",),
        splits=("bias",),
        licence="Apache-2.0",
        citation="Srivastava et al. (2023): Beyond the Imitation Game. TMLR",
        link="https://pypi.org/project/bigbench/1.0.0/",
        loader="mbbq_gen.benchmarks.readers.bbq:load_bbq_lite",
    ),
)

BENCHMARKS: Final[dict[str, BenchmarkInfo]] = {info.name: info for info in _BENCHMARKS}


def benchmark_name(typed: str) -> str:
    """A benchmark's name as it is written here: `gg_bbq`, where `gg-bbq` was typed; what none has, as it was typed."""
    written = typed.replace("-", "_")
    return written if written in BENCHMARKS else typed


def find_benchmark(name: str) -> BenchmarkInfo:
    """The benchmark of that name, hyphens taken for underscores.

    Raises:
        UnknownNameError: where there is none; it offers the nearest names.
    """
    try:
        return BENCHMARKS[benchmark_name(name)]
    except KeyError:
        raise UnknownNameError("benchmark", name, BENCHMARKS) from None


def load_benchmark(
    name: str,
    *,
    data: Path | None = None,
    languages: Sequence[str] | None = None,
    splits: Sequence[Split] | None = None,
    resources: PackPaths | None = None,
) -> Iterator[Instance]:
    """The instances of a benchmark, one by one: language by language, and in each split by split.

    Args:
        name: the benchmark's name.
        data: the folder of its published files; not used for a benchmark that ships with us.
        languages: which languages, in that order; None for all it has.
        splits: which splits, in that order; None for all it has.
        resources: where language packs are found; None for those that ship.

    Raises:
        UnknownNameError: for a name that no benchmark has.
        UsageError: at once, for a language or split that it does not have, or a missing folder or file.
        DataError: while reading, at the first row that is wrong; file, row and field.
    """
    info = find_benchmark(name)
    wanted_languages = _choose(info, "language", languages, info.languages)
    wanted_splits = _choose(info, "split", splits, info.splits)
    module, function = info.loader.split(":")
    loader: Callable[..., Iterator[Instance]] = getattr(importlib.import_module(module), function)
    if not info.needs_data:
        packs = resources or PackPaths()
        return chain.from_iterable([loader(language, wanted_splits, packs) for language in wanted_languages])
    if data is None:
        raise UsageError(
            f"{info.name}: its published files are needed; get them with `mbbq-gen data download {info.name}`,"
            f" or from {info.link} and give --data-dir DIR"
        )
    parts = [loader(data, language, split) for language in wanted_languages for split in wanted_splits]
    return chain.from_iterable(parts)


def _choose(info: BenchmarkInfo, what: str, wanted: Sequence[Any] | None, known: Sequence[Any]) -> list[Any]:
    """The wanted ones if the benchmark has them all, each once; all of its own where none are named."""
    for one in wanted or ():
        if one not in known:
            raise UsageError(f"{info.name} has no {what} {one!r}; it has {', '.join(known)}")
    return list(dict.fromkeys(wanted or known))
