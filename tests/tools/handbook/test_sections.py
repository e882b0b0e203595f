"""Splitting at headings: nothing is lost, nothing is there twice, and every section has a name of its own."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tools.handbook.folder import HandbookSnapshot
from tools.handbook.sections import HEADING, HEADINGS, split_sections

MARKDOWN = st.lists(
    st.sampled_from(["# A", "## B", "### C", "A", "===", "---", "```", "> # q", "- # l", "    # code", "", "文字", "#"])
    | st.text(max_size=20),
    max_size=20,
).map("\n".join)


def test_sections_of_a_file() -> None:
    text = "before\n# Leave\nall\n## Annual\n10 days\n\nUnder\n-----\nlined\n# Leave\nagain"
    found = split_sections("a/b.md", text)
    assert [(one.id, one.heading) for one in found] == [
        ("a/b.md", ""),
        ("a/b.md#Leave", "Leave"),
        ("a/b.md#Annual", "Leave › Annual"),
        ("a/b.md#Under", "Leave › Under"),
        ("a/b.md#Leave (2)", "Leave"),
    ]
    assert (found[2].text, found[2].body) == ("## Annual\n10 days\n\n", "10 days\n\n")
    assert found[3].text == "Under\n-----\nlined\n"


def test_what_only_looks_like_a_heading_splits_nothing() -> None:
    assert len(split_sections("a.md", "```\n# code\n```\n> # quoted\n\n- # listed\n\n    # indented\n#hash")) == 1


@settings(deadline=None)
@given(MARKDOWN | st.text())
@example("\ufeff# x\r\ny\rz\x0c\x00\u2028# w")
def test_the_texts_of_all_sections_are_the_file(text: str) -> None:
    found = split_sections("f.md", text)
    whole = "".join(one.text for one in found)
    expected = text.replace("\r\n", "\n").replace("\r", "\n")
    kept = "".join("\ufffd" if c < " " and c not in "\n\t" else c for c in expected)
    assert kept.endswith(whole) and not kept.removesuffix(whole).strip(), "only blank lines before the first heading go"


@settings(deadline=None)
@given(MARKDOWN)
def test_every_section_is_found_by_its_name_and_names_are_bounded(text: str) -> None:
    found = split_sections("f.md", text)
    book = HandbookSnapshot(found)
    for one in found:
        assert book.find_section(one.id) is one and book.find_section(f" {one.id.upper()} ") is one
        assert len(one.id) <= len("f.md#") + HEADING + 10 and len(one.heading) <= HEADINGS
        assert one.text.endswith(one.body)
