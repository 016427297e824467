"""Which text acts on a terminal, decided by Unicode's categories, and how it is shown."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrf_matrix.base import escaped, is_plain_line
from mrf_matrix.domain import Attribute, Domain, DomainError

ACTING = [
    "\x00", "\x07", "\t", "\n", "\r", "\x1b[31m", "\x1b]0;owned\x07", "\x7f",  # C0 and DEL
    "\x85", "\x9b2J", "\x9d0;x\x9c",  # C1, of which \x9b is a terminal's CSI
    "\u202a", "\u202e", "\u2066", "\u2069", "\u200e", "\u200f", "\u061c",  # direction
    "\u200b", "\ufeff", "\u2028", "\u2029", "\ud800", "\U000e0041",  # hidden, lines, surrogate, tag
]  # fmt: skip
PLAIN = [
    "<=50K",
    "a b",
    "größer",
    "日本\u3000語",
    "1\u00a0000 €",
    "می\u200cخواهم",
    "👨\u200d👩",
    "'\"[bold]",
]


@pytest.mark.parametrize("text", ACTING)
def test_acting_texts_are_told_and_shown_harmless(text):
    around = f"yes{text}no"
    assert not is_plain_line(around)
    assert is_plain_line(escaped(around))
    assert escaped(around).startswith("yes\\")


@pytest.mark.parametrize("text", PLAIN)
def test_words_of_any_language_stay_as_they_are(text):
    assert is_plain_line(text)
    assert escaped(text) == text


@given(st.text(st.characters()))
def test_what_is_escaped_is_plain_and_what_is_plain_stays(text):
    assert is_plain_line(escaped(text))
    assert (escaped(text) == text) == is_plain_line(text)
    assert all(unicodedata.category(one) != "Cc" for one in escaped(text))


def test_line_ends_may_be_kept():
    assert escaped("a\nb\x1b", keep="\n") == "a\nb\\x1b"


@pytest.mark.parametrize("text", ACTING)
def test_no_attribute_has_a_name_or_category_that_acts(text):
    around = f"yes{text}no"
    with pytest.raises(DomainError, match="control characters") as refused:
        Attribute(around, size=2)
    assert is_plain_line(str(refused.value))
    with pytest.raises(DomainError, match="control characters") as refused:
        Attribute("a", categories=["ok", around])
    assert is_plain_line(str(refused.value))
    record = Domain.from_sizes([2], n_classes=2).to_dict()
    record["target"] = {"name": "c", "categories": [around, "no"]}
    with pytest.raises(DomainError, match=r"target: .*control characters"):
        Domain.from_dict(record)


@pytest.mark.parametrize("text", PLAIN)
def test_names_and_categories_of_any_language_are_taken(text):
    assert Attribute(text, categories=[text]).labels == (text,)
