"""The check of the built site finds what it is for."""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[1] / "docs" / "check_site.py"
SPEC = spec_from_file_location("check_site", SCRIPT)
check_site = module_from_spec(SPEC)
SPEC.loader.exec_module(check_site)

DOCS = SCRIPT.parent
GOOD = '<a href="two.html#there">x</a><a href="https://example.org">y</a><img src="i.png">'


@pytest.fixture
def site(tmp_path):
    (tmp_path / "api" / "generated").mkdir(parents=True)
    (tmp_path / "index.html").write_text(GOOD)
    (tmp_path / "two.html").write_text('<p id="there"></p>')
    (tmp_path / "i.png").write_bytes(b"")
    page = tmp_path / "api" / "generated" / "m.AClassifier.html"
    page.write_text('<dt id="m.AClassifier.predict_proba"></dt>')
    return tmp_path


def test_a_good_site_has_no_problem(site):
    assert check_site.main(str(site)) == 0


@pytest.mark.parametrize(
    ("file", "text", "found"),
    [
        ("index.html", '<script src="https://cdn.example/x.js"></script>', "loads https://cdn"),
        ("index.html", '<link rel="stylesheet" href="//fonts.example/f">', "loads //fonts"),
        ("index.html", "<style>@import 'https://a.example/b';</style>", "loads https://a"),
        ("index.html", '<p style="background:url(http://a.example/b)">', "loads http://a"),
        ("index.html", '<img srcset="https://a.example/b 2x">', "loads https://a"),
        ("index.html", '<img src="missing.png">', "not there"),
        ("index.html", '<a href="nowhere.html">x</a>', "links to nowhere.html"),
        ("index.html", '<a href="two.html#else">x</a>', "nothing has that name"),
        ("s.css", "@font-face{src:url('https://a.example/b')}", "s.css loads"),
        ("api/generated/m.BClassifier.html", "<p>", "lists no predict_proba"),
    ],
)
def test_what_is_wrong_is_named(site, capsys, file, text, found):
    (site / file).write_text(text)
    assert check_site.main(str(site)) == 1
    assert found in capsys.readouterr().out


def test_a_folder_without_a_site_is_refused(tmp_path):
    assert check_site.main(str(tmp_path)) == 1


def test_every_notebook_has_its_card_and_picture():
    gallery = (DOCS / "examples.md").read_text("utf-8")
    names = {path.stem for path in (DOCS.parent / "notebooks").glob("*.ipynb")}
    assert names
    assert names == {path.stem for path in (DOCS / "_static" / "thumbnails").glob("*.png")}
    assert all(f"(notebooks/{name}.ipynb)" in gallery for name in names)
