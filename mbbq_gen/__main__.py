"""`python -m mbbq_gen` is `mbbq-gen`."""

from mbbq_gen.cli.main import main

main()
