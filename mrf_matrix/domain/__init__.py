"""The public schema of the records: attributes, their codes, and the domain they span."""

from mrf_matrix.base.checks import DomainError, PrivacyLeakWarning
from mrf_matrix.domain.attribute import Attribute
from mrf_matrix.domain.domain import (
    Domain,
    DomainOrPath,
    as_domain,
    domain_provenance,
    required_domain,
    will_be_read_off,
)

__all__ = [
    "Attribute",
    "Domain",
    "DomainError",
    "DomainOrPath",
    "PrivacyLeakWarning",
    "as_domain",
    "domain_provenance",
    "required_domain",
    "will_be_read_off",
]
