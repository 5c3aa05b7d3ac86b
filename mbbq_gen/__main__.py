"""`python -m mbbq_gen` is `mbbq-gen`."""

from mbbq_gen.cli import main

main()
