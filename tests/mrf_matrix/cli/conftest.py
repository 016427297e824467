"""What the tests of the command line share."""

import re

import pytest


@pytest.fixture
def numbers_told(tmp_path):
    """Return a function: the whole numbers in a text, those of the test's own folder apart."""
    folder = r"\s*".join(map(re.escape, str(tmp_path)))  # a long path is broken over lines

    def numbers(text):
        return re.findall(r"(?<![\d.])\d+(?!\d|\.\d)", re.sub(folder, "", text))

    return numbers
