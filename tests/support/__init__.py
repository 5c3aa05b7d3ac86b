"""Parts that tests and benches share."""
