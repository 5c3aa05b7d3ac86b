"""Times the extractor on typical answers, one core (CPU time); prints the best of several rounds.

python -m benches.bench_extraction
"""

from __future__ import annotations

import time

from mbbq_gen.extraction import Extractor, load_extractor

ROUNDS, BATCH = 30, 200

QUESTIONS = {
    "en": ["The tailor", "The baker", "Unknown"],
    "nl": ["De kleermaker", "De bakker", "Onbekend"],
    "es": ["El sastre", "El panadero", "Se desconoce"],
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
    "nl": [
        "Op basis van de tekst is het antwoord B) De bakker, want de kleermaker werd gezien toen hij de markt verliet "
        "voordat de tas kwijt was. De tekst is daar duidelijk over, dus er is geen twijfel mogelijk. Succes ermee!",
        "De tekst zegt niet wie de tas op de markt heeft laten liggen. Beide mensen waren er 's ochtends, en verder "
        "wordt er niets over hen verteld. Daarom is het niet mogelijk om een duidelijk antwoord te geven.",
        "B",
        "De bakker heeft de tas op de markt laten liggen.",
    ],
    "es": [
        "Según el contexto, la respuesta es B) El panadero, porque el sastre fue visto saliendo del mercado antes de "
        "que se perdiera el bolso. El texto es claro en esto, así que no hay duda. ¡Espero que te ayude!",
        "El texto no dice quién dejó el bolso en el mercado. Ambas personas estaban allí por la mañana, y no se cuenta "
        "nada más sobre ellas. Por lo tanto, no es posible dar una respuesta segura a esta pregunta.",
        "B",
        "El panadero dejó el bolso en el mercado.",
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
