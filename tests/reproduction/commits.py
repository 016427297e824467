"""What git knows of the code that figures are computed on."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CODE = ("mrf_matrix", "strategies", "tests/reproduction")
UNKNOWN = "unknown"
CHANGED, BEFORE = "+", "before "
"""A commit with changes that were not committed ends in +. Figures that were computed before runs
wrote their commit have 'before' and the commit that brought them."""


def git(root: Path, *words: str) -> str | None:
    """Return what git says, or None where there is no git, no repository or no such commit."""
    command = ["git", "-C", str(root), "-c", "core.quotePath=off", *words]
    try:
        said = subprocess.run(command, capture_output=True, check=False)
    except OSError:
        return None
    return said.stdout.decode() if said.returncode == 0 else None


def commit_of(root: Path = ROOT) -> str:
    """Return the commit of a checkout, with + where its code differs, or 'unknown'."""
    top = git(root, "rev-parse", "--show-toplevel")
    if top is None or Path(top.strip()).resolve() != root.resolve():
        return UNKNOWN  # an unpacked archive inside somebody else's repository
    commit = git(root, "rev-parse", "--short=10", "HEAD")
    if commit is None:
        return UNKNOWN
    return commit.strip() + (CHANGED if git(root, "status", "--porcelain", "--", *CODE) else "")


def in_words(commit: str) -> str:
    """Return how a page names a commit."""
    if commit == UNKNOWN:
        return "an unknown commit"
    changes = " with changes that were not committed" if commit.endswith(CHANGED) else ""
    before = "a commit before " if commit.startswith(BEFORE) else ""
    return f"{before}`{bare(commit)}`{changes}"


def bare(commit: str) -> str:
    """Return the name by which git knows it."""
    return commit.removeprefix(BEFORE).removesuffix(CHANGED)


def changed_files(commit: str, root: Path = ROOT) -> dict[str, str | None] | None:
    """Return the code files that differ from a commit, with their names then; None if unknown.

    A file that is new has no name then. Renames are followed.
    """
    said = git(root, "diff", "--name-status", "-M", bare(commit), "--", *CODE)
    if said is None or commit == UNKNOWN:
        return None
    lines = [line.split("\t") for line in said.splitlines()]
    found = {names[-1]: None if state == "A" else names[0] for state, *names in lines}
    new = git(root, "ls-files", "--others", "--exclude-standard", "--", *CODE) or ""
    return found | dict.fromkeys(new.splitlines())
