"""Text that acts on no terminal: which text that is, and how all other is shown.

A terminal obeys control characters: it moves the cursor, clears the screen, changes its title.
Marks of writing direction show a line in another order than it is stored in. Names and categories
come from files of strangers, so none of these may be in them.
"""

import unicodedata

ACTING = {"Cc", "Cs", "Zl", "Zp"}
"""Unicode's controls (C0, DEL, C1), lone surrogates, separators of lines and of paragraphs."""

JOINERS = {"\u200c", "\u200d"}
"""Format characters (Cf) that writing needs, in Persian or in Hindi; the others are refused, marks
of direction and invisible spaces among them."""


def is_plain_line(text: str) -> bool:
    r"""Return whether a text is one line, without characters that act or hide.

    Examples
    --------
    >>> is_plain_line("<=50K"), is_plain_line("größer als 1 €"), is_plain_line("red\x1b[31m")
    (True, True, False)
    """
    return text.isprintable() or not any(map(_acts, text))


def escaped(text: str, *, keep: str = "") -> str:
    r"""Return a text with every character that acts or hides written as in a Python string.

    Parameters
    ----------
    text : str
    keep : str, default=""
        Characters that stay, a line's end say.

    Examples
    --------
    >>> print(escaped("class\x1b]0;owned\x07"))
    class\x1b]0;owned\x07
    """
    if text.isprintable():
        return text
    return "".join(
        one.encode("unicode_escape").decode("ascii") if _acts(one) and one not in keep else one
        for one in text
    )


def _acts(character: str) -> bool:
    kind = unicodedata.category(character)
    return kind in ACTING or (kind == "Cf" and character not in JOINERS)
