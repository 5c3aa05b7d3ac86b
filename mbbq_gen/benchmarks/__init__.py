"""The benchmarks of the BBQ family: `registry` lists them, `readers` read their files, `own_file` a user's own."""
