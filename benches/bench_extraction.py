"""Times the extractor on typical answers, one core (CPU time); prints the best of several rounds.

python -m benches.bench_extraction
"""

from __future__ import annotations

import time

from mbbq_gen.extraction import Extractor, load_extractor

ROUNDS, BATCH = 30, 200

QUESTIONS = {
    "en": ["The tailor", "The baker", "Unknown"],
    "tr": ["Terzi", "Fırıncı", "Bilinmiyor"],
}
ANSWERS = {
    "en": [
        "Based on the context, the answer is B) The baker, because the tailor was seen leaving the market before the "
        "bag was lost. The text is clear about this, so there is no doubt. I hope that helps you today!",
        "The passage does not say who left the bag at the market. Both people were there in the morning, and nothing "
        "else is told about them. Therefore it is not possible to give a definite answer to the question.",
        "B",
        "The baker left the bag at the market.",
    ],
    "tr": [
        "Bağlama göre doğru cevap B) Fırıncı, çünkü terzi çanta kaybolmadan önce pazardan ayrılırken görüldü. Metin bu "
        "konuda oldukça açık, bu yüzden şüphe yok. Umarım bu açıklama size yardımcı olur, iyi günler!",
        "Metinde çantayı pazarda kimin bıraktığı belirtilmemiş. Her iki kişi de sabah oradaydı ve haklarında başka bir "
        "şey anlatılmıyor. Bu nedenle soruya kesin bir cevap vermek mümkün değil, üzgünüm.",
        "B",
        "Çantayı pazarda fırıncı bıraktı.",
    ],
}


def main() -> None:
    for language, answers in ANSWERS.items():
        reader = load_extractor(language)
        for answer in answers:
            best = min(_round(reader, answer, QUESTIONS[language]) for _ in range(ROUNDS))
            print(f"{language}  {len(answer):4} characters  {BATCH / best:8.0f} responses/s")


def _round(reader: Extractor, answer: str, options: list[str]) -> float:
    start = time.process_time()
    for _ in range(BATCH):
        reader.extract(answer, options, ["A", "B", "C"], 2)
    return time.process_time() - start


if __name__ == "__main__":
    main()
