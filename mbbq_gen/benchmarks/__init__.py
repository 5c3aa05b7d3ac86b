"""Benchmarks of the BBQ family: `registry` lists them, `readers` read their files, `own_file` reads a user's file."""
