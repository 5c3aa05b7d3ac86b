"""Exports and imports: tables with a data dictionary, data sets and model cards; logs of other programs.

Exports are made from `mbbq_gen.api.Run`; each folder has its schema version and a data dictionary.
"""
