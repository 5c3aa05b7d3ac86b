"""Results that a person reads."""

from __future__ import annotations
