"""Runs: a folder that holds what was planned, sent, received and extracted, and goes on where it stopped."""
