"""What a person reads about a fit."""

from typing import TYPE_CHECKING

from mrf_matrix.base.front_door import front_door

if TYPE_CHECKING:
    from mrf_matrix.reports.attachments import ledger_report as ledger_report
    from mrf_matrix.reports.model_page import domain_hash as domain_hash
    from mrf_matrix.reports.model_page import model_report as model_report
    from mrf_matrix.reports.page import ReportPage as ReportPage
    from mrf_matrix.reports.page import Section as Section
    from mrf_matrix.reports.privacy_report import Measurement as Measurement
    from mrf_matrix.reports.privacy_report import PrivacyReport as PrivacyReport

__getattr__, __dir__, __all__ = front_door(__name__)
