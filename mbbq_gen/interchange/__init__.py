"""What a run is passed on as: tables with a data dictionary, a folder for `datasets`, metadata for a model card.

Everything here is written from `mbbq_gen.api.Run`; every folder says its schema version and what each column means.
"""
