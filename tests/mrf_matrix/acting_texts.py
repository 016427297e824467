"""Texts that act on a terminal or a page, and words of any language that do not."""

ACTING = [
    "\x00", "\x07", "\t", "\n", "\r", "\x1b[31m", "\x1b]0;owned\x07", "\x7f",  # C0 and DEL
    "\x85", "\x9b2J", "\x9d0;x\x9c",  # C1, of which \x9b is a terminal's CSI
    "\u202a", "\u202e", "\u2066", "\u2069", "\u200e", "\u200f", "\u061c",  # direction
    "\u200b", "\ufeff", "\u2028", "\u2029", "\ud800", "\U000e0041",  # hidden, lines, surrogate, tag
]  # fmt: skip
PLAIN = [
    "<=50K",
    "a b",
    "größer",
    "日本\u3000語",
    "1\u00a0000 €",
    "می\u200cخواهم",
    "👨\u200d👩",
    "'\"[bold]",
]
