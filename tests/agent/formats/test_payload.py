"""JSON as models write it: read as it stands, mended without a word more or less, or refused."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bot.agent.formats.payload import DEPTH, REPAIRABLE, PayloadError, parse_payload

STRICT: dict[str, Any] = {
    '{"a": "it\'s"}': {"a": "it's"},
    '{"a": [1, 2.5, true, null]}': {"a": [1, 2.5, True, None]},
    '{"a": "中文 \\u4e2d \\n \\" \\\\"}': {"a": '中文 中 \n " \\'},
    '{"a": "{not [a bracket"}': {"a": "{not [a bracket"},
    '{"a": "http://x#y /* z */"}': {"a": "http://x#y /* z */"},
    '{"a": "one\ntwo\tthree"}': {"a": "one\ntwo\tthree"},
    '"x"': "x",
    '{"a": "\\ud800"}': {"a": "\ufffd"},
}
MENDED: dict[str, Any] = {
    "{'a': 'x'}": {"a": "x"},
    "{'a': 'it\\'s'}": {"a": "it's"},
    "{'a': \"it's\"}": {"a": "it's"},
    '{"a": "x",}': {"a": "x"},
    "[1, 2,]": [1, 2],
    '{a: "x"}': {"a": "x"},
    "{'a': True, 'b': None, 'c': False}": {"a": True, "b": None, "c": False},
    '{"a": True, "b": null}': {"a": True, "b": None},
    "{'a': ('x', 'y')}": {"a": ["x", "y"]},
    '{"a": "x" // why\n}': {"a": "x"},
    '{"a": "x", # why\n "b": 1}': {"a": "x", "b": 1},
    '{"a": /* why */ "x"}': {"a": "x"},
    '{"a": "http://x", }': {"a": "http://x"},
    "{“a”: “x”}": {"a": "x"},
    '{"a"："x，y"，"b"：1}': {"a": "x，y", "b": 1},
    '{"a": 2026-11-20}': {"a": "2026-11-20"},
    "{'a': 1.50, 'b': -5}": {"a": 1.5, "b": -5},
    '{"a": "C:\\dir"}': {"a": "C:\\dir"},
}
REFUSED = (
    "", " ", "x y", "{",
    '{"a"', '{"a":', '{"a": "x', '{"a": "x"', '{"a": "x}', '{"a": [1, 2}', '{"a": {"b": 1}', "[1, 2",
    '{"a": NaN}', '{"a": Infinity}', '{"a": -Infinity}', '{"a": 1e999}', "{'a': NaN}", "{'a': 1e999}",
    '{"a": 1, "a": 2}', "{'a': 1, 'a': 2}", '{"a": {"b": 1, "b": 1}}', '{"a": 10 days}', '{"a": 1,000, "b": 00123}',
    '{"a": - 5}', '{"a" "x"}', '{"a"}', '{{"a": 1}}', '{"a": 1} {"b": 2}', '{"a": 1}}', '{"a": "\\x41"}',
    "{'a': 'it's'}",
    '{"a": "said "hello" to"}', '{"a": 1 "b": 2}',
    '{"a": 1_000}', '{"a": """x"""}', "9" * 5_000, f'{{"a": {"9" * 5_000}}}',
    "[" * (DEPTH + 1) + "]" * (DEPTH + 1), "[" * 100_000, '{"a":' * 50_000, "{'a': '" + "x" * REPAIRABLE + "'}",
)  # fmt: skip


def test_json_is_read_as_it_stands_or_mended_and_then_it_says_so(subtests: pytest.Subtests) -> None:
    for table, repaired in ((STRICT, False), (MENDED, True)):
        for text, value in table.items():
            with subtests.test(text=text):
                payload = parse_payload(text)
                assert payload.value == value and payload.repaired is repaired


def test_what_is_cut_off_or_means_nothing_for_certain_is_refused(subtests: pytest.Subtests) -> None:
    for text in REFUSED:
        with subtests.test(text=text), pytest.raises(PayloadError):
            parse_payload(text)


scalars = st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.floats(-1e6, 1e6) | st.text(max_size=20)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=12,
)
objects = st.dictionaries(st.text(max_size=8), values, max_size=4)


def carried(value: Any) -> Any:
    """What a wire carries of it."""
    wire = json.dumps(value, ensure_ascii=False).encode("utf-16", "surrogatepass")
    return json.loads(wire.decode("utf-16", "replace"))


@given(objects, st.booleans(), st.sampled_from([None, 2]))
def test_whatever_json_writes_is_read_back(value: dict[str, Any], ascii_: bool, indent: int | None) -> None:
    payload = parse_payload(json.dumps(value, ensure_ascii=ascii_, indent=indent))
    assert payload.value == carried(value) and not payload.repaired


@given(objects, st.data())
def test_no_part_of_an_object_is_taken_for_the_whole(value: dict[str, Any], data: st.DataObject) -> None:
    text = json.dumps(value, ensure_ascii=False)
    with pytest.raises(PayloadError):
        parse_payload(text[: data.draw(st.integers(0, len(text) - 1))])


@example({"X": "\n", "Y": ""})
@given(st.dictionaries(st.text("abcXYZ ,'中\n", max_size=8), scalars, max_size=4))
def test_what_python_writes_is_read_back_or_refused(value: dict[str, Any]) -> None:
    try:
        payload = parse_payload(repr(value))
    except PayloadError:
        return
    read_, written = ({name.strip(): one for name, one in each.items()} for each in (payload.value, carried(value)))
    assert read_ == written, "blanks around a name are not part of it"


@given(st.text("{}[]\"'\\:,#/* \nabN1.-_", max_size=60))
def test_whatever_is_written_is_read_or_refused(text: str) -> None:
    try:
        payload = parse_payload(text)
    except PayloadError:
        return
    json.dumps(payload.value, allow_nan=False, ensure_ascii=False).encode()
