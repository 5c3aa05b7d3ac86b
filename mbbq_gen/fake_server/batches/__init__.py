"""Files and batches: questions that are handed over together and answered later."""
