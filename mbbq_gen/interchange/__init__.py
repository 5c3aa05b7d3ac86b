"""Exports as tables, data sets and model cards; imports of other programs' logs.

Exports are made from `mbbq_gen.api.Run`; each folder has its schema version and a data dictionary.
"""
