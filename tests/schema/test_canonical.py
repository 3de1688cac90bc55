import json

import pytest
import rfc8785
from fitproof.schema.canonical import canonical_json, decimal_string, short_id
from hypothesis import given
from hypothesis import strategies as st

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)


@given(values)
def test_equals_the_reference_implementation_of_rfc_8785(value):
    try:
        expected = rfc8785.dumps(value)
    except (rfc8785.CanonicalizationError, UnicodeEncodeError):
        return  # lone surrogates: no UTF-8 form exists
    assert canonical_json(value) == expected


@given(values)
def test_round_trip(value):
    assert json.loads(canonical_json(value)) == value


def test_keys_are_ordered_by_utf16_not_by_code_point():
    # U+1F600 is D83D DE00 in UTF-16 and so sorts before U+FB33, though its code point is larger (RFC 8785, 3.2.3).
    assert canonical_json({"\ufb33": 1, "\U0001f600": 2}) == '{"\U0001f600":2,"\ufb33":1}'.encode()


@pytest.mark.parametrize("value", [0.5, float("nan"), 2**53, {1: "a"}, b"x", {"a": [1, {"b": 1.5}]}])
def test_refuses_what_has_no_single_spelling(value):
    with pytest.raises(ValueError, match=r"\$"):
        canonical_json(value)


def test_short_id_is_a_known_value():
    # printf '{"a":1,"b":[true,null,"x"]}' | sha256sum
    assert short_id({"b": [True, None, "x"], "a": 1}) == "eca8cfb31ab74533"


@pytest.mark.parametrize(
    ("given_value", "text"),
    [("0.60", "0.6"), (0.6, "0.6"), ("1", "1"), (1, "1"), ("-0", "0"), ("1e-2", "0.01"), ("100", "100")],
)
def test_one_spelling_per_fraction(given_value, text):
    assert decimal_string(given_value) == text


@pytest.mark.parametrize("bad", ["", "x", "nan", "inf", None])
def test_refuses_no_numbers(bad):
    with pytest.raises(ValueError, match="decimal number"):
        decimal_string(bad)
