"""Control questions made by substitution: two first names replace the two people of a question.

    words            tokens of a text, word forms, neighbouring words
    people           descriptions of the two people
    names            their names, and the forms of a name
    mention_grammar  the words about one person: distinguishing words, case, gender, stand-ins
    mentions, spans  mentions of the people, found by search or at positions in the data
    agreement        pronouns and words that agree with the gender of a person
    substitution     texts with slots for names, and refusals of texts in which a name can't replace a person
    maker            bias questions → control questions, or the reason for the refusal
    coverage         counts of both

The grammar is data: the table `[substitution]` of `control_sets/xx.toml` (`mbbq_gen.languages.control_pack`).
A question that can't be replaced with certainty is refused with a reason
(docs/decisions/0023-control-set-by-substitution.md).
"""
