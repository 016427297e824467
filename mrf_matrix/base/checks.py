"""Checks of numbers, words and processes, and how messages quote values.

A message shows a public value, short and on one line. It shows a private one by its kind alone.
"""

import multiprocessing
import os
import sys
import unicodedata
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import islice
from math import floor, isfinite, log10
from numbers import Integral, Rational, Real
from reprlib import Repr
from typing import TYPE_CHECKING, NoReturn, TypeVar

if TYPE_CHECKING:
    import numpy as np


MOST = 100
SHOWN = 5  # values that a message, or `DomainError.values`, names at most
MOST_SAID = 3000  # characters of a whole message
PLAIN = (str, bytes, int, float, complex, Fraction, Decimal, type(None), range, type)
OURS = ("strategies", "mrf_matrix")
"""Packages whose objects write themselves without their arrays."""

INSIDE = (*(f"{name}." for name in OURS), "contextlib")


class _Short(Repr):
    """Shortened as `reprlib` does; foreign objects, which may hold records, by their type."""

    def repr_instance(self, x: object, level: int) -> str:
        if isinstance(x, PLAIN) or type(x).__module__.partition(".")[0] in OURS:
            return repr(x)
        item = getattr(x, "item", None) if getattr(x, "shape", None) == () else None
        return repr(x) if item is not None else f"<{type(x).__name__}>"


_SHORT = _Short()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = MOST


def short_repr(value: object) -> str:
    """Return what a message shows of a public value: its repr, cut in the middle if it is long.

    Frames, arrays and other objects that may hold records are shown by their type. A repr that
    raises is too.

    `value`: A parameter that somebody gave; never a record's value.

    >>> short_repr("auto"), short_repr([1, 2]), len(short_repr("x" * 100_000)) <= 100
    ("'auto'", '[1, 2]', True)
    """
    try:
        text = " ".join(_SHORT.repr(value).split())
    except Exception:  # whatever a stranger's repr does, the message comes first
        text = f"<{type(value).__name__}>"
    half = (MOST - 3) // 2
    return text if len(text) <= MOST else f"{text[:half]}...{text[-half:]}"


class PrivateDataError(TypeError):
    """Records, or counts of them, were about to leave the process."""


class PrivateValue:
    """A holder of records or counts: it shows its kind alone, and never leaves the process.

    A dataclass of this kind is declared with ``repr=False``.
    """

    def __repr__(self) -> str:
        return f"{type(self).__name__}(private)"

    def __reduce__(self) -> NoReturn:
        raise PrivateDataError(
            f"{type(self).__name__} holds raw private counts or records: it is not pickled, copied "
            f"or sent to another process. Release it with measure(...), and share the Release."
        )


def shorten(text: str, most: int = MOST_SAID) -> str:
    """Return a message of bounded length, cut in its middle: strangers decide what it quotes.

    >>> shorten("x" * 10_000, most=9)
    'xxxx [...] xxxx'
    """
    half = most // 2
    return text if len(text) <= most else f"{text[:half]} [...] {text[-half:]}"


def few_values(values: Iterable[object]) -> tuple[object, ...]:
    """Return the first few distinct values, in their order."""
    listed = list(values)
    try:
        return tuple(islice(dict.fromkeys(listed), SHOWN))
    except TypeError:  # lists and other values without a hash
        return tuple(listed[:SHOWN])


def name_few(values: Iterable[object]) -> str:
    """List the most frequent of some public values, ``'a' (3 times), 'b'``."""
    counts = Counter(map(short_repr, values)).most_common()
    names = [f"{text} ({n} times)" if n > 1 else text for text, n in counts[:SHOWN]]
    rest = len(counts) - len(names)
    return ", ".join(names) + (f" and {rest} more" if rest else "")


def name_some(values: Iterable[object]) -> str:
    """List the first of some public names or categories, in their order."""
    head = list(islice(values, 2 * SHOWN + 1))
    names = ", ".join(map(short_repr, head[: 2 * SHOWN]))
    return names + (", ..." if len(head) > 2 * SHOWN else "")


def warn_caller(message: str, kind: type[Warning]) -> None:
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(INSIDE):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, kind, stacklevel=level)


MOST_BITS = 13_000
"""Most bits of a numerator or denominator: 3900 digits. Python writes no more than 4300."""

Word = TypeVar("Word", bound=str)


def whole_number(name: str, value: object, least: int = 1, most: int | None = None) -> int:
    """Return a whole number of at least ``least``, and at most ``most``, or refuse by name.

    Raises ValueError naming the parameter, what was got and what was expected.
    """
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        kind = "a positive integer" if least == 1 else f"an integer of at least {least}"
        raise ValueError(f"{name}={short_repr(value)}: expected {kind}.")
    whole = int(value)
    if most is not None and whole > most:
        raise ValueError(f"{name}={short_repr(value)}: expected at most {most}.")
    return whole


MOST_REPEATS = 100_000
"""Most repeats of a study: each takes at least milliseconds."""

LARGEST_N_RECORDS = 10**15
"""Public numbers of records: files hold no larger ones, and times a budget they are floats."""


def checked_n_records(n_records: object) -> int | None:
    """Return the public number of records, None where it is not public, or refuse by name.

    Raises ValueError if it is none from 1 to 10**15.
    """
    if n_records is None:
        return None
    found = whole_number("n_records", n_records)
    if found > LARGEST_N_RECORDS:
        raise ValueError(
            f"n_records={short_repr(n_records)}: expected an integer of at most 10**15."
        )
    return found


def check_integer(name: str, value: object, least: int) -> None:
    """Refuse a parameter of a path source that is no integer of at least `least`.

    Raises TypeError, ValueError naming the parameter, what was got and what was expected.
    """
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name}={short_repr(value)}: expected an integer of at least {least}.")
    if value < least:
        raise ValueError(f"{name}={value}: expected at least {least}.")


def structure_generator(random_state: object) -> "np.random.Generator":
    """Return the generator of the public structure from any scikit-learn random state.

    Raises ValueError if it is none.
    """
    import numpy as np  # not above: help needs no numpy

    if isinstance(random_state, np.random.Generator):
        return random_state
    try:
        if random_state is np.random or isinstance(random_state, np.random.RandomState):
            return np.random.default_rng(random_state.randint(2**31 - 1))
        if random_state is None or isinstance(random_state, int | np.integer):
            return np.random.default_rng(random_state)
    except ValueError:
        pass  # a negative number: refused below
    raise ValueError(
        f"random_state={short_repr(random_state)}: expected None, a whole number that is not "
        f"negative, a RandomState or a Generator."
    )


def one_word(name: str, value: object, allowed: Sequence[Word]) -> Word:
    """Return one of a few words, or refuse by name."""
    for word in allowed:
        if isinstance(value, str) and value == word:
            return word
    raise ValueError(
        f"{name}={short_repr(value)}: expected one of {', '.join(map(repr, allowed))}."
    )


def checked_level(level: object) -> float:
    if isinstance(level, Real) and 0 < (share := float(level)) < 1:
        return share
    raise ValueError(f"level={short_repr(level)}: expected a number between 0 and 1, such as 0.95.")


ACTING = {"Cc", "Cs", "Zl", "Zp"}
"""Unicode's controls (C0, DEL, C1), lone surrogates, separators of lines and of paragraphs."""

JOINERS = {"\u200c", "\u200d"}
"""Format characters (Cf) that writing needs, in Persian or in Hindi; the others are refused, marks
of direction and invisible spaces among them."""


def is_plain_line(text: str) -> bool:
    r"""Return whether a text is one line, without characters that act or hide.

    A terminal obeys control characters: it moves the cursor, clears the screen, changes its title.
    Marks of writing direction show a line in another order than it is stored in. Names and
    categories come from files of strangers, so none of these may be in them.

    >>> is_plain_line("<=50K"), is_plain_line("größer als 1 €"), is_plain_line("red\x1b[31m")
    (True, True, False)
    """
    return text.isprintable() or not any(map(_acts, text))


def escape_controls(text: str, *, keep: str = "") -> str:
    r"""Return a text with every character that acts or hides written as in a Python string.

    `keep`: characters that stay, a line's end say.

    >>> print(escape_controls("class\x1b]0;owned\x07"))
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


_IMPORTED_BY = os.getpid()
"""Known from the first import of any of the library: this file is loaded with its front door."""


class NoiseProcessError(RuntimeError):
    """Release-grade noise was asked for in a worker process."""


def check_parent_process() -> None:
    """Refuse to draw release-grade noise in a worker, forked or pooled.

    A forked worker starts with a copy of its parent's random state. OpenDP reseeds from the system,
    but a guarantee should not hang on that, and a ledger in the parent cannot see what a worker
    spends.

    Raises NoiseProcessError if this process was started by multiprocessing, joblib or
    concurrent.futures, or forked after this package was imported.
    """
    if multiprocessing.parent_process() is not None or os.getpid() != _IMPORTED_BY:
        raise NoiseProcessError(
            "noise='exact' in a worker process: release-grade noise is drawn in the parent "
            "process only. Run the private fit in the parent (n_jobs=1, or "
            "joblib.parallel_config(backend='threading')), or study with noise='research'."
        )


class BudgetError(ValueError):
    """A privacy budget that cannot be: not positive, not a number, or more than there is."""


def exact_positive(
    name: str, value: object, *, allow_infinite: bool = False, range_words: str = ""
) -> Fraction | float:
    """Return a positive number as an exact fraction, or infinity where it is allowed.

    `range_words`: what errors say is expected, where a caller takes less or more than that.

    A float stands for the shortest decimal that prints as it, so ten times 0.1 is 1.

    Raises TypeError if the value is no real number: a string, a bool, a complex number, None, an
    array; BudgetError if the value is zero, negative, NaN, too long to write, or infinite where
    that is not allowed.

    >>> exact_positive("epsilon", 0.1)
    Fraction(1, 10)
    """
    example = "" if range_words else f", for example {name}=1.0"
    expected = range_words or "a positive number" + (' or float("inf")' if allow_infinite else "")
    if isinstance(value, bool) or not isinstance(value, Real | Decimal):
        raise TypeError(
            f"{name}={short_repr(value)} is of type {type(value).__name__}: expected {expected}"
            f"{example}."
        )
    if value != value:
        raise BudgetError(f"{name} is NaN: expected {expected}.")
    if value <= 0:
        raise BudgetError(f"{name}={short_repr(value)}: expected {expected}.")
    if not isinstance(value, Rational) and not isfinite(value):
        if not allow_infinite:
            raise BudgetError(f"{name}={value}: expected {expected}, and finite.")
        return float("inf")
    exact = as_fraction(value)
    if max(exact.numerator, exact.denominator).bit_length() > MOST_BITS:
        raise BudgetError(
            f"{name}={short_repr(value)}: expected {expected} of at most 3900 digits."
        )
    return exact


def as_fraction(value: object) -> Fraction:
    """Return a finite real number exactly as it is written."""
    if isinstance(value, Rational):
        return Fraction(int(value.numerator), int(value.denominator))
    if isinstance(value, Decimal):
        return Fraction(value)
    if isinstance(value, float):  # np.float64 too, whose own repr is no number
        return Fraction(repr(float(value)))
    return Fraction(str(value))  # other NumPy floats print their shortest decimal


def format_number(value: Fraction | float) -> str:
    """Write an exact number for people: as a short decimal where it is one, else as a fraction.

    >>> format_number(Fraction(1, 10)), format_number(Fraction(1, 3)), format_number(float("inf"))
    ('0.1', '1/3', 'inf')
    """
    if not isinstance(value, Fraction):
        return str(value)
    if value.denominator == 1:
        return str(value.numerator)
    try:
        short = repr(float(value))
    except OverflowError:
        return str(value)
    return short if Fraction(short) == value else str(value)


def magnitude(value: Fraction) -> str:
    """Write how large a positive number is: Python prints no integers of more than 4300 digits.

    >>> magnitude(Fraction(10) ** 5000), magnitude(Fraction(1, 2 * 10**310))
    ('about 1.0e5000', 'about 5.0e-311')
    """
    power = log10(value.numerator) - log10(value.denominator)
    exponent = floor(power)
    mantissa = round(10 ** (power - exponent), 1)
    if mantissa >= 10:
        mantissa, exponent = 1.0, exponent + 1
    return f"about {mantissa:.1f}e{exponent}"


def checked_shares(shares: int | Sequence[object]) -> list[Fraction]:
    """Return the weights of shares: of a number of equal ones, or one weight a share.

    Raises BudgetError, TypeError if there is no share, or one is not a positive number.
    """
    if isinstance(shares, bool | str) or not isinstance(shares, Integral | Iterable):
        raise TypeError(
            f"shares={short_repr(shares)}: expected a number of shares or a list of weights."
        )
    if isinstance(shares, Integral):
        if shares < 1:
            raise BudgetError(f"shares={shares}: expected at least one share.")
        return [Fraction(1)] * int(shares)
    weights = list(shares)
    if not weights:
        raise BudgetError("shares is empty: expected at least one weight.")
    for weight in weights:
        exact_positive("share", weight)
    return [as_fraction(weight) for weight in weights]


SEE_VALUES = "The values at fault are in the error's attribute values, which no message shows."


class DomainError(ValueError):
    """A domain is ill-formed, or records do not fit it.

    Messages end up in logs, so none shows a value of a record, its place, or how many there are.

    Attributes
    ----------
    values : tuple
        For the eyes of the records' owner: a few distinct values at fault. They are as private as
        the records, and are neither in the error's text nor in its pickle.

    Examples
    --------
    >>> from mrf_matrix import Attribute, Domain
    >>> try:
    ...     Domain([Attribute("sex", categories=["F", "M"])]).encode({"sex": ["F", "x"]})
    ... except DomainError as error:
    ...     print("x" in str(error).split(), error.values)
    False ('x',)
    """

    values: tuple[object, ...]

    def __init__(self, message: str, *, values: Iterable[object] = ()) -> None:
        super().__init__(shorten(message))
        self.values = few_values(values)

    def __reduce__(self) -> tuple[type["DomainError"], tuple[str]]:
        return type(self), (str(self),)


class PrivacyLeakWarning(UserWarning):
    """Something public was taken from private records, so no privacy guarantee holds."""
