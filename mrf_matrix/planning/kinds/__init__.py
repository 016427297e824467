"""Kinds of plan: what is asked, what is measured, how far one record moves it."""

from mrf_matrix.planning.kinds.kind import Kind
from mrf_matrix.planning.kinds.words import KINDS, kind_of, kinds_named

__all__ = ["KINDS", "Kind", "kind_of", "kinds_named"]
