"""Records, configuration, errors, files, text and progress: what every room may use."""
