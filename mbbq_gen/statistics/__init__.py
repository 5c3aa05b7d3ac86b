"""Statistical inference over templates: estimates, intervals, tests, bounds and corrections. Pure, like scoring."""
