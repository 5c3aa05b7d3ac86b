"""Analyses: scores, comparisons, agreement, robustness, position bias, power and design."""
