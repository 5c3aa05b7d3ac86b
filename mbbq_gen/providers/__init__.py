"""Providers of models, one module for each kind; the registry imports them by `kind:model` when needed."""

import os

# Torch's threads spin while they wait for each other. When other programs use the same cores, they block the thread
# that they wait for, and a model becomes ten or more times slower. Sleeping costs about a seventh on an idle machine.
# The variable must be set before torch is first imported; this module is always imported before torch.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
