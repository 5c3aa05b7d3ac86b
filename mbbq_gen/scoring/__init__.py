"""Extractions to scores: observations → counts → metrics with bounds and intervals. Pure; sees no model and no run."""

from __future__ import annotations
