"""The refusal of counts by classifiers to which every record matters by itself."""

from typing import Any


def needs_records(what: str) -> TypeError:
    """Return the refusal of counts where every record is needed by itself."""
    return TypeError(
        f"{what} needs the records themselves, for each of them is sent its own way: expected "
        f"fit(X, y). Counts of cells do not tell records apart."
    )


class NeedsRecords:
    """A classifier that grows its structure from records, or sends each its own way."""

    def fit_counts(self, counts: Any) -> Any:
        """Refuse: this classifier needs the records themselves, see `fit`."""
        raise needs_records(type(self).__name__)

    def fit_stream(self, batches: Any, *, extra: str = "error", progress: Any = None) -> Any:
        """Refuse: this classifier needs the records themselves, see `fit`."""
        raise needs_records(type(self).__name__)
