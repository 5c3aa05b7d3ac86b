"""Questions to the scores: comparisons, robustness, power, design."""
