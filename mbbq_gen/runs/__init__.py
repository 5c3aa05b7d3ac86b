"""Runs: planning, execution and extraction in a run folder, from which an interrupted run resumes."""
