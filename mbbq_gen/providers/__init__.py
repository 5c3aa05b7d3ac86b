"""Kinds of models, one module for each, found by the names `kind:model` through a lazy registry."""

import os

# Torch's threads spin while they wait for each other. Where other programs want the same cores, the one that is waited
# for does not get to run, and a model becomes ten times slower and more. Sleeping costs about a seventh on an idle
# machine. It has to be said before torch is first imported, and this is imported earlier wherever we import torch.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
