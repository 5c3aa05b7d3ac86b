"""Answers that another program asked for, read from its own files and made into a run.

log of lm-eval, inspect-ai, HELM or a table ─► ForeignAnswer ─► matched to one of our instances ─► run folder

What an answer means, and what it scores, is decided here as for any run: nothing of the other program's own reading or
scores is used. Every row that is not imported is counted under the reason why.
"""
