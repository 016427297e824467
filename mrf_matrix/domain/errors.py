"""What goes wrong between records and a public domain, in words that show no record."""

from collections.abc import Iterable

from mrf_matrix.base.checks import cut, few_values

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
        super().__init__(cut(message))
        self.values = few_values(values)

    def __reduce__(self) -> tuple[type["DomainError"], tuple[str]]:
        return type(self), (str(self),)


class PrivacyLeakWarning(UserWarning):
    """Something public was taken from private records, so no privacy guarantee holds."""
