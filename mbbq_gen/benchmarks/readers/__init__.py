"""One reader for each published benchmark; `benchmarks.toml` has licences and citations.

Unless a reader documents otherwise: the unknown option is the one whose group in `answer_info` is `unknown`, the
alignment is derived from label, polarity and target, a template is category and `question_index`, and `parallel_id` is
None, since there is no parallel data.
"""
