"""Release-grade noise is drawn in the parent process, never in forked or pooled workers.

A forked worker starts with a copy of its parent's random state. OpenDP reseeds from the system,
but a guarantee should not hang on that, and a ledger in the parent cannot see what a worker
spends. So exact noise refuses to be drawn anywhere else.
"""

import multiprocessing
import os

_IMPORTED_BY = os.getpid()
"""Known from the first import of any of the library: this file is loaded with its front door."""


class NoiseProcessError(RuntimeError):
    """Release-grade noise was asked for in a worker process."""


def check_parent_process() -> None:
    """Refuse to draw release-grade noise in a worker.

    Raises
    ------
    NoiseProcessError
        If this process was started by multiprocessing, joblib or concurrent.futures, or forked
        after this package was imported.
    """
    if multiprocessing.parent_process() is not None or os.getpid() != _IMPORTED_BY:
        raise NoiseProcessError(
            "noise='exact' in a worker process: release-grade noise is drawn in the parent "
            "process only. Run the private fit in the parent (n_jobs=1, or "
            "joblib.parallel_config(backend='threading')), or study with noise='research'."
        )
