"""Commands `prompts …`, `language …`, `languages` and `check`: language packs and their prompts."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import typer

from mbbq_gen.cli.command import Command, PackCommand, argument, command_group, flag, option, settings
from mbbq_gen.cli.options import Languages
from mbbq_gen.cli.output import echo, open_lines, print_json, print_rows
from mbbq_gen.core.config import RunConfig
from mbbq_gen.core.errors import UsageError
from mbbq_gen.core.files import PACK_KINDS
from mbbq_gen.core.option_display import ORDER_POLICIES, SamplingUnit
from mbbq_gen.core.progress import Bar
from mbbq_gen.core.records import Split
from mbbq_gen.core.text import all_of, one_of

Language = Annotated[str, option("Questions", "Language.", metavar="XX")]
Code = Annotated[str, argument("XX", "The language's ISO 639 code.", default=...)]
_PROMPT_SETTINGS = (
    *("data_dir", "instances", "instances_field_map", "no_context", "prompt_source", "option_order"),
    *("label_style", "system_prompt", "seed"),
)


class ListPrompts(PackCommand):
    """Lists the prompt variants of a language with their texts."""

    help_examples = (
        "  mbbq-gen prompts list --language tr\n"
        "  mbbq-gen prompts list --language nl --prompt-source published --benchmark mbbq"
    )
    language: Language = "en"
    benchmark: str | None = option("Questions", "Benchmark of the published prompts.")
    config: RunConfig = settings(("prompt_source", "data_dir"))

    def _run(self) -> None:
        from mbbq_gen.languages.prompt_pack import read_prompts
        from mbbq_gen.prompts.published import read_published_prompts
        from mbbq_gen.runs.resolve import located

        rows = [variant.model_dump() for variant in read_prompts(self.resources, self.language).variant]
        if self.config.prompt_source == "published":
            if self.benchmark is None:
                raise UsageError("--prompt-source published: name the benchmark: --benchmark NAME")
            (choice,) = located(self.config.model_copy(update={"benchmark": (self.benchmark,)})).benchmarks
            folder = Path(choice.data_dir) if choice.data_dir else None
            rows = [
                {**prompt.variant.model_dump(), "label_style": prompt.label_style, "unknown_text": prompt.unknown_text}
                for prompt in read_published_prompts(choice.name, folder, self.language)
            ]
        if self.as_json:
            print_json(rows)
            return
        for row in rows:
            labels = f", labels {row['label_style']}" if "label_style" in row else ""
            unknown = f", unknown option: {row['unknown_text']}" if row.get("unknown_text") else ""
            echo(f"{row['id']}  ({row['kind']}{labels}{unknown})\n")
            echo("\n".join(f"    {line}".rstrip() for line in row["text"].strip().splitlines()) + "\n")


class ShowPrompt(PackCommand):
    """Shows the exact messages sent to a model for a question."""

    help_examples = (
        "  mbbq-gen prompts show --language tr --variant polite\n"
        "  mbbq-gen prompts show --language en --variant letters --label-style '(A)' --option-order cyclic --json\n"
        "  mbbq-gen prompts show --language ko --benchmark kobbq --prompt-source published --variant published_3"
    )
    benchmark: str | None = option("Questions", "Benchmark. Default: starter.")
    language: Language = "en"
    split: Split = option("Questions", "Split: bias or control.", default="bias")
    instance: str | None = option("Questions", "Id of the question. Default: the first.", metavar="ID")
    variant: str | None = option("Prompts", "Variant, see `mbbq-gen prompts list`. Default: the first.", metavar="ID")
    follow_up: bool = flag("Prompts", "Also show what `run --follow-up` asks about an answer.")
    config: RunConfig = settings(_PROMPT_SETTINGS)

    def _run(self) -> None:
        from mbbq_gen.prompts.render import plan_orders, render_prompt
        from mbbq_gen.prompts.variants import PromptVariants
        from mbbq_gen.runs.follow_up import follow_up_question, follow_up_text
        from mbbq_gen.runs.resolve import InstanceSource, resolve

        resources, language = self.resources, self.language
        fixed: dict[str, Any] = {"model": "oracle:perfect", "languages": (language,), "splits": (self.split,)}
        if self.benchmark is not None or self.config.instances is None:
            fixed["benchmark"] = (self.benchmark or "starter",)
        one_of("language", language, resources.names("prompts"))
        config = resolve(self.config.model_copy(update=fixed), resources)
        variants = list(config.variants)
        if self.variant is not None:
            config = resolve(config.model_copy(update={"variants": (self.variant,)}), resources)
        variant, source = config.variants[0], InstanceSource(config, resources)
        questions = [row.build() for choice in config.benchmarks for row in source(choice, [language], [self.split])]
        if not questions:
            raise UsageError("there is no question in this language and split")
        by_id = {name: found for found in reversed(questions) for name in (found.key, found.instance_id)}
        question = questions[0] if self.instance is None else by_id[one_of("instance", self.instance, by_id)]
        settings_of = PromptVariants(config.model_copy(update={"variants": (variant,)}), resources).settings_of
        policy = one_of("option order", config.option_order, ORDER_POLICIES)
        plan = plan_orders(policy, map(SamplingUnit.of, questions), config.seed)
        number = [*variants, variant].index(variant)
        prompts = [render_prompt(question, settings_of(question)[0], order) for order in plan.orders(question, number)]
        follow_up = follow_up_text(resources, language) if self.follow_up else None
        if self.as_json:
            more = [{"follow_up": follow_up_question(prompt, follow_up)} if follow_up else {} for prompt in prompts]
            print_json([prompt.model_dump() | extra for prompt, extra in zip(prompts, more, strict=True)])
            return
        for prompt in prompts:
            roles = ", ".join(
                f"{label} = {question.options[index].role or 'person'}"
                for label, index in zip(prompt.option_labels, prompt.option_order, strict=True)
            )
            echo(f"{question.key}  variant {variant}  ({roles})")
            for message in prompt.messages:
                echo(f"\n--- {message.role} ---\n{message.content}")
            if follow_up is not None:
                echo(f"\n--- assistant ---\n…\n\n--- user ---\n{follow_up_question(prompt, follow_up)}")
            echo("")


class ListAxes(PackCommand):
    """Lists the axes to compose prompts from.

    `run --axes format=free+json,hint=all` uses every combination; `--axes-design fractional` uses a part that still
    identifies main effects. A composed variant is named by its levels, such as `courteous+json`; `prompts show
    --variant` takes such names too.
    """

    help_examples = "  mbbq-gen prompts axes --language ko\n  mbbq-gen prompts axes --language es --json"
    language: Language = "en"

    def _run(self) -> None:
        from mbbq_gen.languages.axes import AXES
        from mbbq_gen.languages.axes_pack import read_axes

        pack = read_axes(self.resources, self.language)
        levels = [
            {"axis": axis.name, "level": level, "is_base": level == axis.base, "text": pack.text_of(axis.name, level)}
            for axis in AXES.values()
            for level in (pack.addresses if axis.name == "address" else axis.levels)
        ]
        print_rows(levels, as_json=self.as_json)


prompts_app = command_group(
    "Lists prompt variants and shows the messages sent.",
    "  mbbq-gen prompts list --language tr\n  mbbq-gen prompts show --language tr --variant polite",
    {"list": ListPrompts, "show": ShowPrompt, "axes": ListAxes},
)


class NewLanguage(Command):
    """Writes the packs of a new language for a speaker to fill in.

    prompts/XX.toml: the prompts. extractors/XX.toml: the words that extraction looks for. control_sets/XX.toml: first
    names. Each shows ours in English next to what to write.
    """

    help_examples = '  mbbq-gen language new nb --name "Norwegian Bokmål" --native-name "norsk bokmål" --packs my-packs'
    language: Code
    name: str = option("", "English name.", default=...)
    own_name: str = option("", "Name in the language itself.", "--native-name", default=..., metavar="NAME")
    packs: Path = option("", "Folder of your own packs.", default=Path("packs"), metavar="DIR")

    def _run(self) -> None:
        from mbbq_gen.extraction.jsonl import LANGUAGE
        from mbbq_gen.languages.extraction_pack import WORD_LISTS
        from mbbq_gen.languages.skeleton import FIRST, write_skeletons

        if not re.fullmatch(LANGUAGE, self.language):
            raise UsageError(f"{self.language!r}: not a language code; examples: nb or pt-br")
        paths = write_skeletons(self.packs, self.language, self.name, self.own_name)
        if self.as_json:
            print_json({"files": [str(path) for path in paths], "fill_in_first": FIRST})
            return
        for path in paths:
            echo(str(path))
        echo(f"\nFill in {paths[1]} in this order; before that, extraction uses labels and option texts only:")
        for number, key in enumerate(FIRST[:15], 1):
            table, _, name = key.partition(".")
            echo(f"  {number:2}. {key:15} {WORD_LISTS[table][name]}")
        echo("The other classes can wait: leave them empty.")
        echo("then    the prompts and example answers, the first names, and [[example]]s")
        echo(f"check   mbbq-gen check --packs {self.packs} --languages {self.language}")
        echo(f"measure mbbq-gen language evaluate {self.language} --packs {self.packs} --labelled-file labelled.jsonl")


class EvaluateLanguage(PackCommand):
    """Evaluates a pack on labelled responses.

    Shows the share of correct extractions, and the contribution of each class of words.

    gold_option is the index of the option that the response chooses, or null if it chooses none.
    """

    help_examples = (
        "  mbbq-gen language evaluate nl\n"
        "  mbbq-gen language evaluate nb --packs my-packs --labelled-file labelled.jsonl"
    )
    language: Code
    labelled_file: Path | None = option(
        "", "JSON Lines as for `extract --jsonl`, with gold_option; - reads stdin. Default: the examples of the pack."
    )

    def _run(self) -> None:
        from mbbq_gen.extraction.pack_tools import labelled_responses, own_examples, report_pack
        from mbbq_gen.languages.extraction_pack import read_grammar

        resources = self.resources
        read_grammar(self.language, resources)
        if self.labelled_file is None:
            responses = own_examples(self.language, resources)
        else:
            responses = list(labelled_responses(open_lines(self.labelled_file), str(self.labelled_file), self.language))
        with Bar("reading", None, "classes") as bar:
            found = report_pack(self.language, responses, resources, on_class=lambda _: bar.advance())
        if self.as_json:
            print_json(found.model_dump())
            return
        total = found.responses
        echo(f"{total:,} labelled responses in {found.language}")
        parts = {"right": found.right, "another option": found.wrong}
        parts |= {"missed": found.missed, "invented": found.invented}
        echo(", ".join(f"{name} {count:,} ({count / total:.1%})" for name, count in parts.items()))
        print_rows([gain.model_dump() for gain in found.classes])


language_app = command_group(
    "Writes the packs of a new language, and evaluates one.",
    "  mbbq-gen language evaluate nl",
    {"new": NewLanguage, "evaluate": EvaluateLanguage},
)


class ListLanguages(PackCommand):
    """Lists the languages and the packs that each has."""

    help_examples = "  mbbq-gen languages\n  mbbq-gen languages --packs my-packs --json"

    def _run(self) -> None:
        from mbbq_gen.languages.packs import list_languages

        found = list_languages(self.resources)
        rows: list[dict[str, Any]] = []
        for status in found:
            rows.append({"language": status.language, "name": status.name, "native_name": status.native_name})
            rows[-1] |= {kind: kind in status.packs for kind in PACK_KINDS}
        print_rows(rows, as_json=self.as_json)


class Check(PackCommand):
    """Checks that the files of the packs are valid.

    Exits with 1 if something is wrong.
    """

    help_examples = "  mbbq-gen check\n  mbbq-gen check --packs my-packs --languages sv"
    languages: Languages = None

    def _run(self) -> None:
        from mbbq_gen.checks import check_everything
        from mbbq_gen.languages.packs import list_languages

        resources = self.resources
        known = [status.language for status in list_languages(resources)]
        report = check_everything(resources, all_of("language", self.languages, known) if self.languages else known)
        if self.as_json:
            print_json(report.model_dump())
        else:
            for finding in report.findings:
                echo(f"{finding.file}: {finding.what}")
            for code, missing in report.incomplete.items():
                echo(f"{code}: not usable yet; missing: {', '.join(missing)}")
            state = f"{len(report.findings)} findings" if report.findings else "nothing wrong"
            echo(f"{len(report.checked)} files checked: {state}")
        if report.findings:
            raise typer.Exit(1)
