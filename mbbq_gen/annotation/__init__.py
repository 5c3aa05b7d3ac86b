"""Checks of the extraction rules: annotations by people, and extractions by LLM judges."""
