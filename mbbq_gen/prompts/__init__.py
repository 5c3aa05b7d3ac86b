"""From instances to prompts: variants, option orders, samples."""
