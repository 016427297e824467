"""The bounds of pyproject.toml are those that docs/dependencies.md gives reasons for."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
PAGE = (ROOT / "docs" / "dependencies.md").read_text("utf-8").lower()
EXTRAS = PROJECT["optional-dependencies"]


@pytest.mark.parametrize("requirement", PROJECT["dependencies"])
def test_a_dependency_has_its_row(requirement: str) -> None:
    name, bound = requirement.split(">=")
    assert f"| {name} | {bound} |" in PAGE


@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_has_its_row(extra: str) -> None:
    row = re.search(rf"^\| `{extra}` \| (.*?) \|", PAGE, re.M)
    assert row is not None
    listed = {name.strip(" `") for name in row[1].split(",")}
    stated = set()
    for requirement in EXTRAS[extra]:
        inner = re.fullmatch(rf"{PROJECT['name']}\[(.*)\]", requirement)
        stated |= set(inner[1].split(",")) if inner else {requirement.replace(">=", " ")}
    assert listed == stated


@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_is_used_by_the_script_that_installs_it(extra: str) -> None:
    assert f"promise_{extra}()" in (ROOT / ".ci" / "extras").read_text("utf-8")


def test_the_version_is_stated_alike() -> None:
    cited = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text("utf-8"), re.M)
    loaded = re.search(
        r'"(.+)"', (ROOT / "mrf_matrix" / "__init__.py").read_text().split("__version__")[1]
    )
    assert cited is not None
    assert loaded is not None
    assert cited[1] == loaded[1] == PROJECT["version"]
