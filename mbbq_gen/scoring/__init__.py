"""Scoring: observations → counts → metrics. Pure functions, without access to models or runs."""
