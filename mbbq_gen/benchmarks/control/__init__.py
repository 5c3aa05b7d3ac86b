"""Control questions made by substitution: two first names replace the two people of a question.

    words            tokens of a text, word forms, and what stands beside a word
    people           descriptions of the two people, and their names
    mention_grammar  what words tell of a person: distinguishing words, case, gender, stand-ins
    mentions, spans  where the people are mentioned, by search or by positions that the data gives
    agreement        pronouns and words that agree with the gender of a person
    refusals         what keeps a name from standing there, or tells of the person besides
    substitution     a text as pieces with slots for names
    maker            bias questions → control questions, or the reason why there is none, with counts

The grammar is data: the table `[substitution]` of `control_sets/xx.toml` (`mbbq_gen.languages.control_pack`).
A question that can't be replaced with certainty is refused with a reason
(docs/decisions/0023-control-set-by-substitution.md).
"""
