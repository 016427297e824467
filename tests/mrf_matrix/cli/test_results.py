"""One function writes every record, with its pictures, and names what it wrote."""

import pytest

from mrf_matrix.cli.screen import write_results


class Picture:
    """A display whose figure writes its own name."""

    @property
    def figure_(self):
        return self

    def savefig(self, file, dpi, format):
        file.write(b"drawn")


def without_matplotlib():
    raise ImportError("install it")


@pytest.mark.parametrize("as_json", [False, True])
def test_record_and_pictures_are_written_and_named(tmp_path, capsys, as_json):
    file = tmp_path / "new" / "folder" / "plan.json"
    write_results(
        '{"ε": 1}', file, lambda: {"a.png": Picture(), "b.png": Picture()}, as_json=as_json
    )
    assert file.read_text(encoding="utf-8") == '{"ε": 1}\n'
    assert {path.name for path in file.parent.iterdir()} == {"plan.json", "a.png", "b.png"}
    said = capsys.readouterr()
    line = f"Written: {file}, {file.parent / 'a.png'}, {file.parent / 'b.png'}\n"
    assert (said.out, said.err) == (("", line) if as_json else (line, ""))


@pytest.mark.parametrize("pictures", [None, without_matplotlib])
def test_the_record_is_written_without_pictures(tmp_path, capsys, pictures):
    write_results("{}", tmp_path / "tune.json", pictures, as_json=False)
    assert [path.name for path in tmp_path.iterdir()] == ["tune.json"]
    said = capsys.readouterr()
    assert said.out == f"Written: {tmp_path / 'tune.json'}\n"
    assert said.err == ("" if pictures is None else "No pictures: install it\n")
