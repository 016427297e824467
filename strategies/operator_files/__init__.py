"""Operators as JSON and arrays, structure by structure, so that huge domains stay small.

`encode` turns an operator into a tree of plain values and a table of arrays; `decode` turns them
back into an operator that computes the same to the last bit, and checks whatever it reads: the
tree may come from anyone.
"""

from strategies.operator_files.codec import RULES, Rule, decode, encode
from strategies.operator_files.fields import Fetch, OperatorFileError

__all__ = ["RULES", "Fetch", "OperatorFileError", "Rule", "decode", "encode"]
