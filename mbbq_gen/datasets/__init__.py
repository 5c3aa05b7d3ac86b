"""The benchmarks of the BBQ family: a reader each, from the files as their authors ship them to `Instance`s.

`registry` names them and loads them late; `canonical` reads and writes our own interchange format.
"""
