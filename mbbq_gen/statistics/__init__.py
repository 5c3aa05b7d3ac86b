"""From scores to statements: ability, comparisons, tests, robustness, position, power. Pure, like scoring."""
