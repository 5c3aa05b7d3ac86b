"""Control questions made by substitution: two first names replace the two people of a question.

    words            tokens of a text, and word forms
    people           descriptions of the two people, and their names
    mention_grammar  the words of a mention: distinguishing words, anaphors, case, gender
    mentions, spans  where the people are mentioned, by search or by positions that the data gives
    mention          the record of a mention; words beside it that no name can stand next to
    agreement        pronouns and words that agree with the gender of a person
    substitution     a text as pieces with slots for names
    maker            bias questions → control questions, or the reason why there is none, with counts

The grammar is data: the table `[substitution]` of `control_sets/xx.toml` (`mbbq_gen.languages.control_pack`).
A question that can't be replaced with certainty is refused with a reason
(docs/decisions/0023-control-set-by-substitution.md).
"""
