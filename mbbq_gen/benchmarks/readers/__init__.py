"""One reader for each published benchmark; `benchmarks.toml` has licences and citations.

Where a reader does not say otherwise: the unknown option is the one whose group in `answer_info` is `unknown`, the
alignment is derived from label, polarity and target, a template is category and `question_index`, and there is no
parallel data, so `parallel_id` is None.
"""
