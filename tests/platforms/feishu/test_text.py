"""Text for Feishu's markdown: people's words exactly, the model's formatting without anything that hides or calls."""

import time

from hypothesis import example, given, settings
from hypothesis import strategies as st

from bot.platforms.feishu.text import (
    MAX_TABLES,
    convert_markdown,
    count_plain_cost,
    escape_text,
    format_mention,
    limit_tables,
)
from tests.linear.pace import measure_pace
from tests.platforms.feishu.reader import list_tags, list_tokens, read_markdown, squeeze
from tests.platforms.feishu.strategies import WRITTEN
from tools.characters import show_invisible, split_text

INVISIBLE_FREE = WRITTEN.map(show_invisible)


@example("1. a\n\n\n  b | c\n--- | ---\n# x\n* y")
@settings(max_examples=300)
@given(WRITTEN)
def test_somebodys_words_are_shown_character_for_character(text: str) -> None:
    """By a renderer of others: no formatting, no tag, nothing lost, and no line more or less."""
    escaped = escape_text(text)
    shown = {one.type for one in list_tokens(escaped)}
    assert shown <= {"inline", "text", "softbreak", "hardbreak", "paragraph_open", "paragraph_close"}, shown
    assert squeeze(read_markdown(escaped)) == squeeze(show_invisible(text))


def test_the_control_without_conversion_the_reader_sees_formatting_links_and_tags() -> None:
    assert list_tags("<at id=all></at>") == ["<at id=all>", "</at>"]
    assert list_tags(convert_markdown("<at id=all></at>")) == []
    assert "strong_open" in {one.type for one in list_tokens("**b**")}
    assert squeeze(read_markdown("*b*")) != squeeze("*b*")
    kinds = {one.type for one in list_tokens("[Approve](http://e) ![x](https://e/p.png) <https://e.example> <b>x</b>")}
    assert kinds >= {"link_open", "image", "html_inline"}


def test_only_an_id_of_feishus_form_is_a_mention() -> None:
    assert format_mention("ou_7d8a6e6df7621556ce0d21922b676706") == "<at id=ou_7d8a6e6df7621556ce0d21922b676706></at>"
    for other in ("all", "ou_", "ou_x></at><at id=all", "U02LI", "", "OU_7d8a6e6df7621556", "ou_7d8a6e6df7621556\n"):
        assert format_mention(other) == ""


@example("Press ` twice.\n\n[Approve](http://e)\n\nThen ` again.")
@example("``` ` [Approve](http://e)")
@example("\\`[Approve](http://e)\\`")
@example("```\nx\n```\t\n[Approve](http://e)")
@example("- a\n  ```\n  x\n[Approve][1]\n\n[1]: http://e")
@example("`\n` ![x](http://e) `")
@settings(max_examples=300)
@given(INVISIBLE_FREE)
def test_the_models_markdown_calls_nobody_and_hides_no_address(text: str) -> None:
    shown = convert_markdown(text)
    kinds = {one.type for one in list_tokens(shown)}
    assert list_tags(shown) == []
    assert not kinds & {"link_open", "image", "html_inline", "html_block"}, (kinds, shown)


def test_formatting_that_feishu_has_stays() -> None:
    for written, shown in (
        ("**b** *i* ~~s~~ `c`", "**b** *i* ~~s~~ `c`"),
        ("- a\n- b\n\n1. c", "- a\n- b\n\n1. c"),
        ("> quoted", "> quoted"),
        ("# Large\n#### Small\n#no", "#### Large\n#### Small\n#no"),
        ("R&D, a < b, a -> b", "R&D, a < b, a -> b"),
        ("https://x.example/?a=1&b=2", "https://x.example/?a=1&b=2"),
        ("[the page](https://x.example)", "[the page&#93;(https://x.example)"),
        ("![p](https://x.example/p.png)", "&#33;[p&#93;(https://x.example/p.png)"),
        ("`a <b> c` <b>", "`a ‹b> c` &#60;b>"),
        ("```\nif a<b\n```", "```\nif a‹b\n```"),
        ("`a[1](b)`", "`a[1］(b)`"),
        ("\\<at id=all>", "&#60;at id=all>"),
    ):
        assert convert_markdown(written) == shown


def test_a_card_has_at_most_four_tables_and_the_others_are_readable() -> None:
    table = "| a | b |\n| --- | --- |\n| 1 | 2 |\n\n"
    assert [one.type for one in list_tokens(limit_tables(table * 7))].count("table_open") == MAX_TABLES
    assert squeeze(read_markdown(limit_tables(table * 7))).count("|1|2|") == 7 - MAX_TABLES
    assert [one.type for one in list_tokens(table * 7)].count("table_open") == 7, "the control"
    assert limit_tables("no\n---\ntable | here") == "no\n---\ntable | here"


@given(st.text(), st.integers(12, 60))
def test_pieces_are_the_text_and_keep_their_cost(text: str, limit: int) -> None:
    pieces = list(split_text(text, limit, count_plain_cost))
    assert "".join(pieces) == text
    assert all(sum(map(count_plain_cost, piece)) <= limit for piece in pieces)


def test_a_text_made_to_be_slow_is_not() -> None:
    for text in ("`" * 12_000, "` " * 6_000, "```\n" * 3_000, "~~~\n```\n" * 1_500, "\\" * 12_000, "-|" * 6_000,
                 "| - " * 3_000, "|" * 12_000, " " * 12_000, "`" * 9 + "a" * 12_000):  # fmt: skip
        begin = time.thread_time()
        convert_markdown(limit_tables(text))
        escape_text(text)
        assert time.thread_time() - begin < 2 * measure_pace()
