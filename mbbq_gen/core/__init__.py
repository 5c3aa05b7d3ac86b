"""Records, configuration, errors, files, text and progress: the base that every other package uses."""
