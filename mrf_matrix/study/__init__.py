"""Comparisons of methods."""

from typing import TYPE_CHECKING

from mrf_matrix.base.front_door import front_door

if TYPE_CHECKING:
    from mrf_matrix.study.calibration import Reliability as Reliability
    from mrf_matrix.study.calibration import (
        expected_calibration_error as expected_calibration_error,
    )
    from mrf_matrix.study.calibration import reliability as reliability
    from mrf_matrix.study.comparison import Comparison as Comparison
    from mrf_matrix.study.comparison import Score as Score
    from mrf_matrix.study.comparison import Summary as Summary
    from mrf_matrix.study.effects import Effect as Effect
    from mrf_matrix.study.effects import effect as effect
    from mrf_matrix.study.effects import explained as explained
    from mrf_matrix.study.effects import importance as importance
    from mrf_matrix.study.private_evaluation import PrivateEvaluation as PrivateEvaluation
    from mrf_matrix.study.private_evaluation import evaluate as evaluate
    from mrf_matrix.study.study import SystemScores as SystemScores
    from mrf_matrix.study.study import compare as compare
    from mrf_matrix.study.study import compare_systems as compare_systems

__getattr__, __dir__, __all__ = front_door(__name__)
