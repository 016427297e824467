"""What `import strategies` costs: its own files, and nothing of SciPy beyond matrices."""

import subprocess
import sys

SCRIPT = """
import sys
import numpy, scipy.linalg, scipy.sparse, threadpoolctl
before = set(sys.modules)
import strategies
print(*sorted(set(sys.modules) - before))
"""
MOST_FILES = 141


def test_importing_loads_own_files_only() -> None:
    """Optimisers and special functions are SciPy's, and are loaded when they are first called."""
    found = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True
    ).stdout.split()
    assert {name.split(".")[0] for name in found} == {"strategies"}
    assert len(found) <= MOST_FILES
