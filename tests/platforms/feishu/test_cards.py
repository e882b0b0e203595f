"""Cards: nothing cut, nothing interpreted, nobody called by somebody's words, nothing that Feishu would refuse."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.chat.messages import (
    Button,
    Card,
    HomeEntry,
    HomeSection,
    HomeView,
    NamedPeople,
    NamedPerson,
    PersonPicker,
    Place,
    Post,
    StepLine,
    StepList,
    TickList,
    TickOption,
)
from bot.platforms.feishu.cards import count_bytes, count_elements, render_post
from bot.platforms.feishu.home import render_home
from bot.platforms.feishu.values import OpenFormValue, PressValue, parse_value
from tests.harness.corpus import corpus
from tests.platforms.feishu.card_schema import check_card, hold_limits, walk
from tests.platforms.feishu.reader import list_markdown, list_tags, list_texts, list_values, read_cards, squeeze
from tests.platforms.feishu.strategies import CARDS, DIRECT, ENTRIES, GROUP, LONG, POSTS, SHORT, SLOW
from tools.characters import has_invisible, show_invisible

TEXT = {"tag": "plain_text", "content": "x"}
LI = "ou_7d8a6e6df7621556ce0d21922b676706"


@SLOW
@given(POSTS, st.sampled_from([GROUP, DIRECT]))
def test_every_post_is_such_as_feishu_takes(post: Post, place: Place) -> None:
    cards = render_post(post, place, people=(LI,))
    hold_limits(cards)
    buttons = [[one for one in walk(card) if one.get("tag") == "button"] for card in cards]
    first = next((number for number, found in enumerate(buttons) if found), len(cards))
    assert all(buttons[first:]), "after the first card with a button, nothing but buttons follows"


def list_people(value: NamedPeople) -> list[str]:
    return [value.text, *(word for one in value.people for word in (one.name, one.email, *one.more, *one.marks))]


@SLOW
@given(CARDS)
def test_every_word_of_a_card_is_on_it(card: Card) -> None:
    cards = render_post(Post("x", card=card), GROUP)
    read = squeeze(read_cards(cards))
    words = [card.title, card.lead, card.body]
    for label, value in card.facts:
        in_words = [value] if isinstance(value, str) else list_people(value)
        if card.is_void and isinstance(value, NamedPeople):
            in_words = [value.text or ", ".join(one.name for one in value.people)]
        words += [label, *in_words]
    words += [one.text + one.details for one in card.ticks.options] if card.ticks else []
    words += [card.footer] if isinstance(card.footer, str) else [one for one in card.footer if isinstance(one, str)]
    for word in words:
        assert squeeze(show_invisible(word)) in read, word
    assert not has_invisible("".join(words for one in cards for _, words in list_texts(one)).replace("\xa0", " "))


@SLOW
@given(POSTS)
def test_only_ids_of_the_directory_are_mentioned(post: Post) -> None:
    """Every tag is a mention of somebody whom code has named, or our own colour."""
    named = {one.id for one in find_people(post)}
    for content in list_markdown(render_post(post, GROUP)):
        tags = [one for one in list_tags(content) if one not in ("<font color='grey'>", "</font>", "</at>")]
        assert {one.removeprefix("<at id=").removesuffix(">") for one in tags} <= named


def find_people(node: Any) -> list[NamedPerson]:
    match node:
        case NamedPerson():
            return [node]
        case NamedPeople():
            return list(node.people)
        case Post():
            node = [node.people, node.card, node.rich]
        case Card():
            node = [*(value for _, value in node.facts), node.footer]
    return [one for inner in node for one in find_people(inner)] if isinstance(node, list | tuple) else []


def test_the_control_somebody_of_the_directory_is_mentioned() -> None:
    card = Card("Leave", (("Approver", NamedPeople((NamedPerson(LI, "李四", "li@example.com"),))),))
    [shown] = render_post(Post("x", card=card), GROUP)
    assert list_markdown((shown,)) == [f"**Approver** 李四 <at id={LI}></at>\nli@example&#46;com".replace("&#46;", ".")]
    [told] = render_post(Post("x", plain=True, rich=(NamedPerson(LI, "张三"), " agreed")), GROUP)
    assert list_tags(list_markdown((told,))[0]) == [f"<at id={LI}>", "</at>"]
    over = Card("Leave", card.facts, is_void=True)
    assert f"<at id={LI}>" not in str(render_post(Post("x", card=over), GROUP)), "nobody is called for what is over"


@corpus(
    "breaks",
    {"tag": "note", "elements": []},
    {"tag": "markdown", "content": "x", "href": {}},
    {"tag": "column_set", "columns": [{"tag": "column", "elements": [{"tag": "form", "name": "f"}]}]},
    {"tag": "input", "name": "x", "required": True},
    {"tag": "button", "text": TEXT, "behaviors": [{"type": "callback", "value": {"n": 1}}]},
    {"tag": "multi_select_static", "name": "x", "options": []},
    {"tag": "div", "text": {"tag": "plain_text", "content": ""}},
)  # fmt: skip
def test_the_control_the_check_finds_what_feishu_refuses(breaks: dict[str, Any]) -> None:
    [shown] = render_post(Post("x"), GROUP)
    card = {**shown, "body": {"elements": [breaks]}}
    assert check_card(shown) == [] and check_card(card) != []


def test_the_control_what_is_counted_is_what_is_sent() -> None:
    [shown] = render_post(Post('中文 "quoted" 😀\n'), GROUP)
    assert count_bytes([shown]) == len(json.dumps(json.dumps(shown, ensure_ascii=False)))
    assert count_elements({"tag": "button", "text": {"tag": "plain_text"}}) == 2


def test_a_long_card_is_several_and_the_last_carries_the_buttons() -> None:
    buttons = tuple(Button(one.title(), one, "A1", 2, seal="5ea1") for one in ("approve", "reject"))
    facts = (("Approver", NamedPeople((NamedPerson(LI, "李四"),))), ("Text", "字" * 12_000))
    cards = render_post(Post("Mail", card=Card("Mail", facts, buttons=buttons)), GROUP)
    hold_limits(cards)
    assert len(cards) > 1 and read_cards(cards).count("字") == 12_000
    assert [bool(list_values(one)) for one in cards] == [False] * (len(cards) - 1) + [True]
    titles = [one["header"]["title"]["content"] for one in cards]
    assert titles == [f"Mail ({number}/{len(cards)})" for number in range(1, len(cards) + 1)]
    assert len(render_post(Post("Mail", card=Card("Mail", buttons=buttons)), GROUP)) == 1, "the control"
    void = render_post(Post("Mail", card=Card("Mail", facts, is_void=True)), GROUP)
    assert read_cards(void).count("字") == 12_000 and "Approver · 李四" in read_cards(void)
    assert all(one.startswith("~~") and one.endswith("~~") and "<at" not in one for one in list_markdown(void))


def test_buttons_of_an_answer() -> None:
    opens, picker = Button("Open", "form:open:1", "R1", 1), PersonPicker("Somebody else", "approver", "R1", 1)
    post = Post("Who?", buttons=(opens,), picker=picker)
    [card] = render_post(post, DIRECT, people=(LI, "no id"))
    picked = PressValue(approval="R1", version=1, choice="approver", direct=True)
    assert [parse_value(one) for one in list_values(card)] == [OpenFormValue(offer="R1.1"), picked]
    [picker] = [one for one in walk(card) if one.get("tag") == "select_person"]
    assert picker["options"] == [{"value": LI}]
    [alone] = render_post(post, DIRECT)
    assert "select_person" not in str(alone), "the members of a DM are no choice"
    [group] = render_post(post, GROUP)
    assert "select_person" in str(group), "the control: the members of a group are one"


def test_the_widest_boxes_are_within_the_limits_and_of_too_many_steps_the_latest_are_shown() -> None:
    wide = tuple(TickOption(str(n), "😀" * 79, "😀" * 79) for n in range(40))
    buttons = tuple(Button("😀" * 100, "set_approve", "S1", 3) for _ in range(2))
    cards = render_post(Post("40", card=Card("40", ticks=TickList("S1", 3, wide), buttons=buttons)), DIRECT)
    hold_limits(cards)
    assert read_cards(cards).count("😀") >= 40 * 158
    bare = render_post(Post("1", card=Card("1", ticks=TickList("S1", 3, wide[:1]))), DIRECT)
    hold_limits(bare)
    assert "'form'" not in str(bare) and "😀" in read_cards(bare), "Feishu takes no form without a button"
    many = tuple(StepLine(f"step {n} " + "字" * 300) for n in range(100))
    [cut] = render_post(Post("x", steps=StepList("Working", many)), GROUP)
    hold_limits((cut,))
    assert "step 99 " in read_cards((cut,)) and "step 0 " not in read_cards((cut,))


@SLOW
@given(st.lists(ENTRIES, max_size=12), SHORT)
def test_home_shows_cards_whole_or_counts_them(entries: list[HomeEntry], title: str) -> None:
    sections = (HomeSection("Waiting", tuple(entries), "Nothing."), HomeSection("Mine", empty="None yet"))
    shown = render_home(HomeView("Hi " + title, sections, request="New…"), "en")
    hold_limits((shown,))
    assert next(parse_value(one) for one in list_values(shown)) == OpenFormValue()
    rows = sum(one.buttons == () and one.card.buttons == () for one in entries)
    whole = sum(squeeze(show_invisible(one.card.body)) in squeeze(read_cards((shown,))) for one in entries)
    assert whole == len(entries) or "more" in read_cards((shown,)) or rows


@SLOW
@given(LONG)
def test_prose_is_whole(text: str) -> None:
    """Of the model's words, everything but markup is there."""
    cards = render_post(Post(text), GROUP)
    hold_limits(cards)
    letters = [one for one in show_invisible(text) if one.isalpha() and ord(one) > 0x2E80]
    read = read_cards(cards)
    assert [one for one in read if one.isalpha() and ord(one) > 0x2E80] == letters


def test_the_sdks_own_cards_pass_the_check() -> None:
    """The check is not stricter than Feishu: a card that its own SDK builds."""
    sdk = pytest.importorskip("lark_channel.channel.card")
    built = sdk.new_card().config(update_multi=True).header(title="Deploy", template="blue").markdown("**b**").divider()
    assert check_card(built.text("plain").to_dict()) == []
