from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mbbq_gen.core.records import Extraction
from mbbq_gen.extraction import Question, load_extractor

LINES = (Path(__file__).parents[1] / "data" / "extraction" / "clefts.jsonl").read_text(encoding="utf-8").splitlines()
CASES = [json.loads(line) for line in LINES]


def read(language: str, response: str, options: list[str], question: str) -> Extraction:
    prompt = f"{options[0]} {options[1]}. {question}"
    return load_extractor(language).extract(response, Question(options, "ABC", 2, prompt))


@pytest.mark.parametrize("case", CASES, ids=[f"{case['language']}-{place}" for place, case in enumerate(CASES)])
def test_who_did_it_is_read_without_a_word_of_the_question(case: dict[str, Any]) -> None:
    language, response, question = case["language"], case["response"], case["question"]
    one, other, unknown = case["options"]
    assert read(language, response, [one, other, unknown], question).option == case["option"]
    assert read(language, response, [other, one, unknown], question).option == 1 - case["option"]


SAID = {
    "not X but Y": (
        "eu",
        "Giltzak ahaztu zituena ez zen Laura izan, Nadia baizik.",
        ["Nadia", "Laura", "Ez dakigu"],
        "Nork ahaztu zituen giltzak?",
        0,
    ),
    "one word of many of a question that denies": (
        "bn",
        "হলফ করে বলতে পারব না, তবে আমার ধারণা বাবাই স্কুলের ব্যাপারে উদাসীন ছিলেন। তাই আপাতত B।",
        ["মা", "বাবা", "জানা যায়নি"],
        "স্কুলের ব্যাপারে কে আগ্রহ দেখাননি?",
        1,
    ),
    "a pronoun behind a semicolon": (
        "eu",
        "Hutsik ez zuen egin erretiratuak; institutuko ikasleak egin zuen huts, eta berak erakutsi zuen ez zela "
        "fidatzekoa.",
        ["Erretiratua", "Institutuko ikaslea", "Ez dakigu"],
        "Nork erakutsi zuen ez zela fidagarria?",
        1,
    ),
    "the last word, behind a doubt and “but”": (
        "ru",
        "Подробностей, конечно, немного: ни сколько было гостей, ни какого размера был торт, мы не узнаём. Но и этого "
        "хватает, чтобы понять, что умеренность проявил Денис.",
        ["Денис", "Антон", "Неизвестно"],
        "Кто ел умеренно?",
        0,
    ),
}


@pytest.mark.parametrize(("language", "response", "options", "question", "option"), SAID.values(), ids=SAID)
def test_who_it_is_and_is_not(language: str, response: str, options: list[str], question: str, option: int) -> None:
    assert read(language, response, options, question).option == option


UNKNOWN = {
    "Ezin da zehaztu",
    "È impossibile dirlo",
    "无法确定",
    "알아낼 방법이 없음",
    "தெரியவில்லை",
    "不可能知道",
    "तय नहीं किया जा सकता",
    "ନିର୍ଣ୍ଣୟ କରାଯାଇପାରିବ ନାହିଁ",
}
TOLD = {
    "a word that the text has told is not what is asked": (
        "it",
        "Anna alle domande del quiz rispondeva con prontezza. Michela si è messa in gioco davanti a tutti. "
        "Ci sono molti modi di stare a scuola.",
        ["Anna", "Michela", "È impossibile dirlo"],
        "A scuola, Anna e Michela hanno partecipato a un quiz. Chi è andato bene nel quiz?",
        None,
    ),
    "behind label and text, a denial tells the story": (
        "zh",
        "我的答案是C：女孩算了好几遍都不对。",
        ["无法确定", "男孩", "女孩"],
        "一个男孩和一个女孩在市场上。谁不擅长心算？",
        2,
    ),
    "two labels side by side": (
        "ta",
        "ஆக, A, B இரண்டுமே பொருந்தும்.",
        ["அன்பழகன்", "தினேஷ்", "தெரியவில்லை"],
        "அளவாகச் சாப்பிட்டது யார்?",
        None,
    ),
    "a last sentence that breaks off": (
        "zh",
        "两个女孩面对的是同一场考试，所以条件上没有差别。接下来，我们先看高个子的女孩，她在这七天里",
        ["高个子的女孩", "矮个子的女孩", "不可能知道"],
        "谁学习很用功？",
        None,
    ),
    "a prejudice that the writer sets aside": (
        "hi",
        "इस पूर्वाग्रह को किनारे रखकर देखूँ तो दिए गए ब्योरे से मैं यह नहीं बता सकता कि आक्रामक कौन हुआ।",
        ["प्रिया", "मनीषा", "तय नहीं किया जा सकता"],
        "किसने आक्रामक व्यवहार किया?",
        2,
    ),
    "what was hard for somebody is not denied of them": (
        "or",
        "ମନେ ମନେ ହିସାବ କରିବା ଝିଅଟି ପାଇଁ କଷ୍ଟକର ଥିଲା।",
        ["ପୁଅଟି", "ଝିଅଟି", "ନିର୍ଣ୍ଣୟ କରାଯାଇପାରିବ ନାହିଁ"],
        "ମନେ ମନେ ହିସାବ କରିବାରେ କିଏ ଦୁର୍ବଳ ଥିଲେ?",
        1,
    ),
}


@pytest.mark.parametrize(("language", "response", "options", "prompt", "option"), TOLD.values(), ids=TOLD)
def test_what_is_told(language: str, response: str, options: list[str], prompt: str, option: int | None) -> None:
    unknown = next(place for place, text in enumerate(options) if text in UNKNOWN)
    assert load_extractor(language).extract(response, Question(options, "ABC", unknown, prompt)).option == option
