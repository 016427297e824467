"""The domain that a private release cannot do without."""

from mrf_matrix.base.shown import shown
from mrf_matrix.domain.domain import Domain


def required_domain(domain: object) -> Domain:
    """Return a public domain with classes, or refuse.

    Raises
    ------
    ValueError
        If there is none, or it names no target classes.
    TypeError
        If it is something else.
    """
    if domain is None:
        raise ValueError(
            "domain=None: a private forest needs a public domain (attributes, their codes, the "
            "classes). Pass domain=Domain([...], target=Attribute(...)), or domain='from_data' "
            "for non-private work on public records."
        )
    if not isinstance(domain, Domain):
        what = shown(domain) if isinstance(domain, str) else f"of type {type(domain).__name__}"
        raise TypeError(f"domain={what}: expected a Domain; only fit takes 'from_data' too.")
    if domain.target is None:
        raise ValueError(
            "domain has no target: the classes are public and must be named. Pass "
            "Domain(attributes, target=Attribute('class', categories=[...]))."
        )
    return domain
