"""The public schema of the records: attributes, their codes, and the domain they span."""

from mrf_matrix.domain.attribute import Attribute
from mrf_matrix.domain.domain import Domain, required_domain
from mrf_matrix.domain.errors import DomainError, PrivacyLeakWarning

__all__ = ["Attribute", "Domain", "DomainError", "PrivacyLeakWarning", "required_domain"]
