"""Tests; what is set here holds before any library is loaded."""

import os

# Tests run side by side: a library that waits for its threads leaves the core to the others, and small matrices of
# numpy take five times as long on two threads as on one.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
