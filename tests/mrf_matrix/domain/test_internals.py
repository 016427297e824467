"""Parts of the domain that no public name shows: short forms, coarser codes."""

import json
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrf_matrix import Attribute, Domain
from mrf_matrix.domain import DomainError, serialization
from mrf_matrix.domain.attribute import MOST_BINS, coarser_codes
from mrf_matrix.domain.attribute_parts import GroupOfCode, checked_groups
from mrf_matrix.domain.serialization import domain_schema, wide_columns
from mrf_matrix.domain.shorthand import VOCABULARIES, attribute_from_words, expand_shorthand

ADMITTED = Attribute(
    "admitted", edges=["2020-01-01", "2021-01-01"], outside="open", missing="category"
)
GROUPS = {"diabetes": ["E10-E14"], "heart": ["I20-I25", "I50"]}


@given(st.text("ABE0129.", max_size=6))
def test_a_code_has_the_group_that_brute_force_finds(code):
    groups = checked_groups("code", {"one": ["A00-B99", "E1"], "two": ["E20-E29", "B9A-BAA"]})
    spans = [("A00", "B99", 0), ("E1", "E1", 0), ("E20", "E29", 1), ("B9A", "BAA", 1)]
    found = {group for low, high, group in spans
             if low <= code[: len(low)] and code[: len(high)] <= high}  # fmt: skip
    assert GroupOfCode(groups)(code) == (found.pop() if found else -1)


@pytest.mark.parametrize(
    ("short", "long"),
    [
        ({"boolean": True}, {"categories": [False, True]}),
        ({"range": [3, 6]}, {"categories": [3, 4, 5, 6]}),
        ({"range": [0, 1], "step": 0.3}, {"edges": [0, 0.3, 0.6, 0.9, 1]}),
        ({"range": ["2020-01-15", "2020-03-20"], "step": "month"},
         {"edges": ["2020-01-15", "2020-02-15", "2020-03-15", "2020-03-20"]}),
        ({"vocabulary": "weekdays"}, {"categories": list(VOCABULARIES["weekdays"])}),
    ],
)  # fmt: skip
def test_short_forms_are_written_out(short, long):
    data = {"attributes": [{"name": "x", **short, "missing": "category"}]}
    written = {"attributes": [{"name": "x", **long, "missing": "category"}]}
    assert Domain.from_dict(data) == Domain.from_dict(written)


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("F, M", 2),
        ("0..4", 5),
        ("0..120 by 10 +open", 14),
        ("2015-01-01..2021-01-01 by year", 6),
        ("edges 0, 25, 40 +missing", 3),
        ("boolean", 2),
        ("codes E10-E14, I2 +other", 3),
        ("us_states", 51),
        ("yes, no +missing=9", 3),
    ],
)
def test_words_at_the_prompt_describe_attributes(text, codes):
    assert Domain.from_dict({"attributes": [attribute_from_words("x", text)]}).sizes == (codes,)


@pytest.mark.parametrize("words", [*permutations(["+open", "+missing=9"])])
def test_options_come_in_any_order(words):
    kept = attribute_from_words("x", f"0..10 by 5 {' '.join(words)}")
    assert kept == {
        "name": "x", "range": [0, 10], "step": 5,
        "outside": "open", "missing": "category", "missing_values": [9],
    }  # fmt: skip


@pytest.mark.parametrize("words", ["F, M +mising", "F, M +other=3", "0..5 +other +opn +missing"])
def test_a_mistyped_option_is_no_category(words):
    with pytest.raises(DomainError, match="is no option"):
        attribute_from_words("x", words)


def test_other_words_are_refused_with_what_may_be_said():
    assert attribute_from_words("id", "skip") is None
    with pytest.raises(DomainError, match=r"0\.\.120 by 10"):
        attribute_from_words("x", "whatever")


def test_wide_columns_get_advice():
    domain = Domain([Attribute("code", categories=[f"c{i}" for i in range(200)]),
                     Attribute("sex", size=2)])  # fmt: skip
    (line,) = wide_columns(domain.attributes, 1000)
    assert "200 codes: group them, or expect about 5 records of each" in line
    assert not wide_columns(domain.attributes, 10**6)


VALID = [
    Domain([ADMITTED], target=Attribute("y", size=2)).to_dict(),
    Domain([Attribute("code", groups=GROUPS, unknown="other")]).to_dict(),
    {"attributes": [{"name": "x", "groups": ["A0", "B0-B9"]}], "target": None},
    {"$schema": "domain.schema.json", "attributes": [{"name": "x", "vocabulary": "months"}]},
    {"attributes": [{"name": "x", "range": [0, 9], "step": 2, "outside": "open"},
                    {"name": "y", "boolean": True},
                    {"name": "z", "edges": [1], "outside": "open", "missing": "category",
                     "missing_values": [9]}]},
]  # fmt: skip
INVALID = [
    {},
    {"attributes": []},
    {"attributes": [{"name": "x"}]},
    {"attributes": [{"name": "", "size": 2}]},
    {"attributes": [{"name": "x", "size": 0}]},
    {"attributes": [{"name": "x", "size": 2, "categories": ["a"]}]},
    {"attributes": [{"name": "x", "size": 2, "colour": "red"}]},
    {"attributes": [{"name": "x", "step": 2, "size": 3}]},
    {"attributes": [{"name": "x", "vocabulary": "planets"}]},
    {"attributes": [{"name": "x", "size": 2, "missing": "drop"}]},
    {"attributes": [{"name": "x", "size": 2, "missing_values": [1]}]},
    {"attributes": [{"name": "x", "groups": {}}]},
    {"attributes": [{"name": "x", "size": 2}], "classes": []},
]


def follows(schema, data, root):
    """Whether data follow a JSON Schema: the keywords that ours uses, and a failure for others."""
    for keyword, rule in schema.items():
        match keyword:
            case "$schema" | "title" | "description" | "$defs":
                good = True
            case "$ref":
                good = follows(root["$defs"][rule.rpartition("/")[2]], data, root)
            case "type":
                kinds = {"object": dict, "array": list, "string": str, "boolean": bool,
                         "number": (int, float), "integer": int, "null": type(None)}  # fmt: skip
                listed = [rule] if isinstance(rule, str) else rule
                good = any(
                    isinstance(data, kinds[one]) and (one == "boolean") == isinstance(data, bool)
                    for one in listed
                )
            case "const":
                good = data == rule and type(data) is type(rule)
            case "enum":
                good = data in rule
            case "anyOf" | "oneOf":
                n = sum(follows(one, data, root) for one in rule)
                good = n >= 1 if keyword == "anyOf" else n == 1
            case "required":
                good = set(rule) <= set(data)
            case "dependentRequired":
                good = all(set(rule[key]) <= set(data) for key in rule if key in data)
            case "additionalProperties":
                known = schema.get("properties", {})
                more = [value for key, value in data.items() if key not in known]
                good = not more if rule is False else all(follows(rule, v, root) for v in more)
            case "properties":
                good = all(follows(rule[k], v, root) for k, v in data.items() if k in rule)
            case "items":
                good = all(follows(rule, one, root) for one in data)
            case "minItems" | "minLength" | "minProperties":
                good = len(data) >= rule
            case "maxItems":
                good = len(data) <= rule
            case "minimum":
                good = data >= rule
            case "exclusiveMinimum":
                good = data > rule
            case "pattern":
                good = any(not c.isspace() for c in data)
            case _:
                raise AssertionError(f"unknown keyword {keyword}")
        if not good:
            return False
    return True


@pytest.mark.parametrize("data", VALID + INVALID, ids=str)
def test_the_json_schema_takes_what_from_dict_takes(data):
    data = json.loads(json.dumps(data))
    try:
        Domain.from_dict(data)
        valid = True
    except DomainError:
        valid = False
    assert valid is (data in json.loads(json.dumps(VALID))), "the table is right"
    schema = domain_schema()
    assert follows(schema, data, schema) is valid


def test_every_vocabulary_is_a_domain_and_short_forms_clash_with_kinds():
    for name in VOCABULARIES:
        assert Domain.from_dict({"attributes": [{"name": "x", "vocabulary": name}]}).size > 1
    assert expand_shorthand({"name": "x", "size": 3}) == {"name": "x", "size": 3}


# Coarser codes ------------------------------------------------------------------------------------


def of_kind(kind, n, missing):
    """An attribute of `n` codes in order, beside that of missing values."""
    more = {"missing": "category"} if missing else {}
    match kind:
        case "size":
            return Attribute("a", size=n, **more)
        case "numbers":
            return Attribute("a", categories=[2.5 * i - 7 for i in range(n)], **more)
        case "bins":
            return Attribute("a", edges=[i * i for i in range(n + 1)], **more)
        case "open":
            return Attribute("a", edges=[3 * i for i in range(n - 1)], outside="open", **more)
        case _:
            days = np.datetime64("2020-02-20") + np.arange(n + 1)
            return Attribute("a", edges=[str(day) for day in days], **more)


KINDS = ("size", "numbers", "bins", "open", "dates")


@given(st.sampled_from(KINDS), st.integers(3, 70), st.integers(2, 20), st.booleans())
def test_bins_hold_equally_many_neighbouring_codes_and_the_same_records(kind, n, most, missing):
    fine = of_kind(kind, n, missing)
    domain = Domain([fine])
    coarse = domain.coarser(most)
    one = coarse.attributes[0]
    assert one.n_known <= most
    codes = np.arange(fine.size)[:, None]
    found = coarse.encode(domain.decode(codes, numeric="midpoint"))[:, 0]
    np.testing.assert_array_equal(
        coarser_codes(domain.attributes, coarse.attributes, codes)[:, 0], found
    )
    if missing:
        assert found[-1] == one.missing_code == one.size - 1
        found = found[:-1]
    width = 1 if n <= most else -(-n // most)
    from_last = (n - 1 - np.arange(n)) // width
    np.testing.assert_array_equal(found, from_last[0] - from_last)
    assert one.n_known == from_last[0] + 1
    assert (one is fine) == (n <= most)


@pytest.mark.parametrize(
    "attribute",
    [
        Attribute("a", categories=[f"{i:03}" for i in range(100)]),
        Attribute("a", categories=[*range(100)][::-1]),
        Attribute("a", size=100, unknown="other"),
        Attribute("a", groups={str(i): [f"{i:02}"] for i in range(40)}),
        Attribute("a", size=MOST_BINS),
    ],
)
def test_codes_without_an_order_stay_and_those_that_others_follow(attribute):
    assert Domain([attribute]).coarser().attributes[0] is attribute


def test_a_domain_of_billions_of_codes_is_no_matter():
    most = Domain([Attribute("a", size=2**31 - 1)]).coarser()
    assert most.sizes == (MOST_BINS,)
    np.testing.assert_array_equal(most.encode([[0], [2**31 - 2]])[:, 0], [0, MOST_BINS - 1])


@pytest.mark.parametrize(
    "attribute",
    [
        # midpoints are marks of missing values
        Attribute(
            "a", edges=range(0, 82, 2), missing="category", missing_values=[*range(1, 80, 6)]
        ),
        # there are no numbers between edges
        Attribute("a", edges=[1 + i * 2.0**-52 for i in range(41)]),
        Attribute("a", edges=[2**60 + 256 * i for i in range(41)]),
        Attribute("a", edges=[-1.7e308, *range(40), 1.7e308], outside="open"),
        Attribute("a", size=10**8, missing="category"),
    ],
    ids=["marks", "adjacent", "large", "largest", "many"],
)
def test_codes_go_to_the_bins_of_their_lower_ends(attribute):
    coarse = Domain([attribute]).coarser().attributes[0]
    codes = np.unique(np.linspace(0, attribute.size - 1, 50).astype(np.int64))
    found = coarser_codes([attribute], [coarse], codes[:, None])[:, 0]
    if attribute.missing_code is not None:
        assert found[-1] == coarse.missing_code
        codes, found = codes[:-1], found[:-1]
    if attribute.is_binned:
        ends = [low for low, _ in attribute.bins]
        starts = [low for low, _ in coarse.bins]
    else:
        ends, starts = range(attribute.n_known), coarse.edges[:-1]
    wanted = [sum(start <= ends[code] for start in starts) - 1 for code in codes.tolist()]
    assert found.tolist() == wanted


# Caps of files ------------------------------------------------------------------------------------


def test_sizes_are_capped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "domain.json"
    Domain.from_sizes([2, 3]).save(path)
    assert Domain.load(path).sizes == (2, 3)
    with monkeypatch.context() as patch:
        patch.setattr(serialization, "MAX_BYTES", 20)
        with pytest.raises(DomainError, match="more than 20 bytes"):
            Domain.load(path)
    with monkeypatch.context() as patch:
        patch.setattr(serialization, "MAX_ATTRIBUTES", 1)
        with pytest.raises(DomainError, match="at most 1"):
            Domain.load(path)
