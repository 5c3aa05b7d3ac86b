"""Joins what belongs together: a label and its text, a label or text and the next one behind "and" or "or"."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mbbq_gen.extraction.mentions import Mention
from mbbq_gen.extraction.normalise import loose_key
from mbbq_gen.extraction.optionset import OptionSet
from mbbq_gen.extraction.tokens import COMMA, COMMA_SIGNS, LINE, SENTENCE, Token

MAX_MENTIONS = 64
"""Of more mentions only the first and last half of this number are read."""
MAX_BESIDE = 4
"""Words in front of a row of labels, or behind it, that are looked at."""
_ROW_GAP = COMMA_SIGNS.union(" \"'“”„«»()[]*_`")
"""Signs that may stand between two labels of a row: no ticks or crosses."""
_LEADS = frozenset(":：=】]")
"""Signs behind a heading that lead up to the answer."""
_LIST_GAP = frozenset(".。．｡):：）、],，-–—|=")


@dataclass(frozen=True, slots=True)
class JoinWords:
    """Words that stand between joined mentions, as keys."""

    coordinators: frozenset[str]
    rows: frozenset[tuple[str, ...]]
    """Coordinators of several words: "as well as"."""
    accented: frozenset[str]
    """The coordinators with their accents: Italian "è" is not "e"."""
    appositions: frozenset[tuple[str, ...]]
    announcing: frozenset[str]
    """Copulas and option words: what stands right before an answer, or behind it where verbs come last."""
    negators: frozenset[str]
    """First words of a contrast: "not A, B" chooses one."""
    turning: frozenset[str]
    """Words that lead to what is meant instead: "but", "rather"."""
    joint: tuple[str, ...]
    """Endings that both of two joined mentions have."""
    joined: frozenset[str]
    """Coordinators that are written together with the next word: Arabic و."""
    small: frozenset[str]
    """Articles and other words that a mention takes in front of it."""


def join(  # noqa: PLR0917 - each of them is of another type
    tokens: Sequence[Token],
    labels: list[Mention],
    texts: list[Mention],
    ordinals: list[Mention],
    options: OptionSet,
    words: JoinWords,
) -> list[Mention]:
    """All mentions in order, joined, none overlapping another."""
    kept = _capped(texts)
    for mention in sorted(_capped(labels) + _capped(ordinals), key=lambda m: (m.kind == "ordinal", m.start)):
        rivals = [other for other in kept if other.start < mention.end and mention.start < other.end]
        if mention.kind == "label" and mention.end - mention.start > 1 and all(o.end < mention.end for o in rivals):
            mention.start = max([mention.start, *(other.end for other in rivals)])
            rivals = []
        if all(
            mention.start <= other.start and mention.end > other.end and mention.kind == "ordinal" for other in rivals
        ):
            kept = [other for other in kept if other not in rivals]
            kept.append(mention)
    kept.sort(key=lambda mention: mention.start)
    kept = _capped(kept)
    for mention in kept:
        if mention.strength != "weak" or (mention.kind == "ordinal" and _stands_alone(mention, tokens, words)):
            _take_articles(mention, tokens, options)
    return _coordinate(_attach(kept, tokens, words), tokens, words)


def _capped(mentions: list[Mention]) -> list[Mention]:
    """At most so many mentions as are read, the first and the last ones."""
    if len(mentions) <= MAX_MENTIONS:
        return list(mentions)
    return mentions[: MAX_MENTIONS // 2] + mentions[-MAX_MENTIONS // 2 :]


def _take_articles(mention: Mention, tokens: Sequence[Token], options: OptionSet) -> None:
    """Moves the start of a text over the articles before it."""
    while (
        mention.start
        and tokens[mention.start].break_before < COMMA
        and tokens[mention.start - 1].key in options.articles
    ):
        mention.start -= 1


def _stands_alone(mention: Mention, tokens: Sequence[Token], words: JoinWords) -> bool:
    """Whether no word that a place may belong to stands behind it: "the first" of "at the first glance" is none."""
    if mention.end >= len(tokens) or tokens[mention.end].break_before >= COMMA:
        return True
    return tokens[mention.end].key in words.turning | words.announcing | words.small


def _attach(mentions: list[Mention], tokens: Sequence[Token], words: JoinWords) -> list[Mention]:
    """Labels joined with the text beside them; where they differ the text wins."""
    joined: list[Mention] = []
    place = 0
    while place < len(mentions):
        pair = mentions[place : place + 2]
        kinds = [mention.kind for mention in pair]
        if kinds == ["label", "text"] and _labels_text(mentions, place, tokens, words):
            joined.append(_joined(pair[0], pair[1], tokens))
            place += 2
        elif kinds == ["text", "label"] and _text_labelled(mentions, place, tokens, words):
            joined.append(_joined(pair[1], pair[0], tokens))
            place += 2
        else:
            joined.append(pair[0])
            place += 1
    return joined


def _joined(label: Mention, text: Mention, tokens: Sequence[Token]) -> Mention:
    start, end = min(label.start, text.start), max(label.end, text.end)
    struck = tokens[start].gap.endswith("~~") and end < len(tokens) and tokens[end].gap.startswith("~~")
    return Mention(
        options=text.options,
        kind="label_text",
        start=start,
        end=end,
        strength="strong",
        match=text.match,
        label=label.label,
        heads_line=tokens[start].break_before >= LINE,
        struck=label.struck or text.struck or struck,
        complete=text.complete,
    )


def _labels_text(mentions: list[Mention], place: int, tokens: Sequence[Token], words: JoinWords) -> bool:
    """Whether a label is that of the text right behind it."""
    label, text = mentions[place], mentions[place + 1]
    between = tuple(token.key for token in tokens[label.end : text.start])
    if between and between not in words.appositions:
        return False
    first = max(tokens[label.end : max(label.end, text.start) + 1], key=lambda token: token.break_before)
    gap = first.gap.strip("*_`~ \"'“”«»")
    listed = gap[:1] in _LIST_GAP if gap else False
    listed = listed or (gap[-1:] == "(" and text.options == (label.label,))
    if label.strength == "weak" and not (listed or between) and not (label.heads_line and first.break_before >= LINE):
        return False
    agree = text.options == (label.label,)
    if not agree and _has_own_label(mentions, place + 1, tokens):
        return False
    if first.break_before >= LINE:
        alone = label.heads_line or label.strength == "strong"
        return alone and tokens[text.start].break_before >= LINE and (agree or _ends_sentence(text, tokens))
    if first.break_before >= SENTENCE:
        if agree:
            return True
        if not _ends_sentence(text, tokens):
            return False
    if {".", ","} & set(gap) and not agree and text.end < len(tokens) and tokens[text.end].break_before < COMMA:
        return False
    return agree or not _names_again(mentions, place, tokens)


def _has_own_label(mentions: list[Mention], place: int, tokens: Sequence[Token]) -> bool:
    """Whether a text has its own label in brackets behind it: "Diederik (option C)"."""
    text, label = mentions[place], mentions[place + 1] if place + 1 < len(mentions) else None
    if label is None or label.kind != "label" or label.options != text.options or label.start != text.end:
        return False
    return "(" in tokens[label.start].gap


def _text_labelled(mentions: list[Mention], place: int, tokens: Sequence[Token], words: JoinWords) -> bool:
    """Whether a text is followed by its label: `the tailor (A)`."""
    text, label = mentions[place], mentions[place + 1]
    between = tuple(token.key for token in tokens[text.end : label.start])
    if (between and between not in words.appositions) or label.strength != "strong":
        return False
    if tokens[text.end].break_before >= SENTENCE:
        return False
    following = mentions[place + 2] if place + 2 < len(mentions) else None
    if following is not None and following.kind == "text" and following.start == label.end:
        return following.options != (label.label,)
    return True


def _ends_sentence(mention: Mention, tokens: Sequence[Token]) -> bool:
    return mention.end >= len(tokens) or tokens[mention.end].break_before >= SENTENCE


def _names_again(mentions: list[Mention], place: int, tokens: Sequence[Token]) -> bool:
    """Whether the label's own option is named later in the sentence: then the text beside it belongs to a reason."""
    label, text = mentions[place], mentions[place + 1]
    if _ends_sentence(text, tokens):
        return False
    for later in mentions[place + 2 :]:
        if any(tokens[i].break_before >= SENTENCE for i in range(text.end, later.start + 1)):
            return False
        if later.options == (label.label,) and later.kind != "ordinal":
            return True
    return False


def _coordinate(mentions: list[Mention], tokens: Sequence[Token], words: JoinWords) -> list[Mention]:
    """Mentions that "and" or "or" makes one."""
    result: list[Mention] = []
    place = 0
    while place < len(mentions):
        chain = [mentions[place]]
        links: list[str] = []
        while place + len(chain) < len(mentions):
            link = _link(chain[-1], mentions[place + len(chain)], tokens, words)
            if link == "none":
                break
            links.append(link)
            chain.append(mentions[place + len(chain)])
        if "word" not in links and not (links and _lists_answers(chain, tokens, words)):
            chain = chain[:1]
        result.append(_merged(chain))
        place += len(chain)
    return result


def _lists_answers(chain: list[Mention], tokens: Sequence[Token], words: JoinWords) -> bool:
    """Whether labels with commas between them are answers: a sentence of their own, or all that follows a copula, a
    colon or a word such as "answer" in it."""
    if not all(part.kind == "label" for part in chain):
        return False
    first = tokens[chain[0].start]
    if any(token.key in words.negators for token in tokens[max(0, chain[0].start - MAX_BESIDE) : chain[0].start]):
        return False
    if first.break_before >= SENTENCE:
        return _ends_sentence(chain[-1], tokens)
    announced = not _LEADS.isdisjoint(first.gap) or any(
        token.key in words.announcing for token in tokens[max(0, chain[0].start - 2) : chain[0].start]
    )
    return announced and _ends_but_for(chain[-1], tokens, words.announcing | words.small)


def _ends_but_for(mention: Mention, tokens: Sequence[Token], words: frozenset[str]) -> bool:
    """Whether a sentence ends with a mention, some words behind it aside."""
    for token in tokens[mention.end : mention.end + MAX_BESIDE]:
        if token.break_before >= SENTENCE:
            return True
        if token.key not in words:
            return False
    return mention.end + MAX_BESIDE >= len(tokens)


def _merged(chain: list[Mention]) -> Mention:
    """One mention for a chain of them."""
    if len(chain) == 1:
        return chain[0]
    options = tuple(sorted({index for part in chain for index in part.options}))
    return Mention(
        options=options,
        kind=chain[0].kind if chain[0].kind != "outside" else chain[-1].kind,
        start=chain[0].start,
        end=chain[-1].end,
        strength="strong",
        match=max((part.match for part in chain), key=("exact", "inflected", "partial", "fuzzy").index),
        label=None,
        heads_line=chain[0].heads_line,
        struck=all(part.struck for part in chain),
    )


def _link(left: Mention, right: Mention, tokens: Sequence[Token], words: JoinWords) -> str:
    """`word` where a coordinator joins two mentions, `comma` where a comma may, else `none`."""
    if "outside" in (left.kind, right.kind) or left.end > right.start:
        return "none"
    between = tokens[left.end : right.start]
    if words.joint and not between and all(tokens[m.end - 1].key.endswith(words.joint) for m in (left, right)):
        return "word"
    breaks = [token.break_before for token in [*between, tokens[right.start]]]
    if max(breaks) >= SENTENCE - 1:
        return "none"
    if not _both_firm(left, right):
        return "none"
    if not between:
        gap = tokens[right.start].gap
        if {"/", "&", "+"} & set(gap) or _is_written_together(right, tokens, words):
            return "word"
        return (
            "comma" if breaks[0] == COMMA and not COMMA_SIGNS.isdisjoint(gap) and _ROW_GAP.issuperset(gap) else "none"
        )
    row = _coordinator(between, words)
    if row and len(between) <= row + 1:
        if between[0].break_before >= COMMA and left.kind != "label" and right.kind != "label" and len(between) == 1:
            return "comma_word"
        if len(between) > row and between[row].key not in words.small:
            return "none"
        return "word"
    return "none"


def _is_written_together(mention: Mention, tokens: Sequence[Token], words: JoinWords) -> bool:
    """Whether a text begins with a coordinator that is written together with its first word."""
    text = loose_key(tokens[mention.start].text)
    return mention.kind == "text" and mention.match != "exact" and any(text.startswith(word) for word in words.joined)


def _coordinator(between: Sequence[Token], words: JoinWords) -> int:
    """How many words a coordinator at the beginning takes: "and", "as well as"; 0 where there is none."""
    keys = tuple(token.key for token in between[:3])
    for length in (3, 2):
        if keys[:length] in words.rows:
            return length
    return int(_coordinates(between[0], words))


def _coordinates(token: Token, words: JoinWords) -> bool:
    """Whether a word joins mentions; a letter with an accent must be a coordinator with just that accent."""
    if token.key not in words.coordinators or token.gap.strip() == ":":
        return False
    return len(token.text) > 1 or token.text.isascii() or token.text.casefold() in words.accented


def _both_firm(left: Mention, right: Mention) -> bool:
    """Weak labels join only other labels written as shown."""
    for one, other in ((left, right), (right, left)):
        if one.strength == "weak" and not (one.shown_case and other.kind == "label"):
            return False
    return not (left.strength == right.strength == "weak" and not (left.shown_case and right.shown_case))
