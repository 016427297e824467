"""Labels, probabilities and intervals of a tree of labels."""

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mrf_matrix.estimators.shared.parameters import Records
from mrf_matrix.estimators.training.posterior_votes import ProbabilityVotes
from mrf_matrix.forests.learned.label_tree import LabelTree
from mrf_matrix.forests.text import export_text
from mrf_matrix.posterior import LabelPosterior
from mrf_matrix.voting.intervals import Margins


class LabelVotes(ProbabilityVotes):
    """A classifier that has labels of cells; subclasses say where they and the codes come from.

    Without counts all labels are worth the same, so that margins and intervals are those of every
    record alike: `predict_or_abstain` withholds all or none, and of two classes at the usual level
    all. With counts it gives those of cells that are sure.

    Attributes
    ----------
    posterior_ : LabelPosterior
        What labels and counts imply.
    """

    posterior_: LabelPosterior
    tree_: LabelTree

    def _margins(self, X: Records, level: float) -> Margins:
        """Return leading classes, margins in log odds, and widths of the records' cells."""
        codes = self._codes(X)  # says first where nothing is fitted
        cells = self.posterior_.cells_at(codes)
        evidence = self.posterior_.evidence
        margins = np.array([one.margin for one in evidence])
        below, above = np.transpose([one.margin_widths(level) for one in evidence])
        return self.posterior_.labels[cells], margins[cells], below[cells], above[cells]

    def export_text(self) -> str:
        """Draw the tree as text: where it is cut, and the label of each cell.

        With counts also how likely it is, in percent.

        Cuts that leave no code on one side of what was cut before, and those below which both
        sides are the same, are left out.

        Examples
        --------
        >>> from mrf_matrix import load_dataset
        >>> from mrf_matrix.estimators.labelled.label_tree import LabelTreeClassifier
        >>> monks = load_dataset("monks_1")
        >>> tree = LabelTreeClassifier(
        ...     monks.domain, epsilon=2, n_records=432, random_state=0,
        ...     noise="research", noise_state=0,  # the same tree every time: not private
        ... )
        >>> print(tree.fit(monks.X, monks.y).export_text())
        ├── a1 = 1
        │   ├── a2 = 1: 1 (97%)
        │   └── a2 in {2, 3}
        │       ├── a5 = 1: 1 (95%)
        │       └── a5 in {2, 3, 4}: 0 (98%)
        └── a1 in {2, 3}
            ├── a2 in {1, 2}
            │   ├── a5 = 1: 1 (97%)
            │   └── a5 in {2, 3, 4}: 0 (76%)
            └── a2 = 3
                ├── a1 in {1, 2}: 0 (80%)
                └── a1 = 3: 1 (98%)
        """
        check_is_fitted(self, self._learned)
        self._check_claim()
        forest, cells = self.tree_.forest(self.domain_)
        said = [str(self.classes_[label]) for label in self.posterior_.labels[cells]]
        if self.tree_.counts is not None:
            evidence = [self.posterior_.evidence[cell] for cell in cells]
            sure = [one.probabilities[one.leading] for one in evidence]
            said = [f"{one} ({p:.0%})" for one, p in zip(said, sure, strict=True)]
        return export_text(forest, leaves=said, title=False)
