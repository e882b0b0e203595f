"""Cards: nothing cut, nothing interpreted, nothing Slack would refuse."""

import re
from dataclasses import replace
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st
from slack_sdk.models.blocks.block_elements import FeedbackButtonsElement

from bot.chat.messages import (
    Button,
    Card,
    Dialog,
    FormInput,
    HomeEntry,
    HomeSection,
    HomeView,
    Moment,
    NamedPeople,
    NamedPerson,
    Place,
    Post,
    RichText,
)
from bot.platforms.slack import home
from bot.platforms.slack.blocks import RenderedMessage, render_post
from bot.platforms.slack.dialogs import render_modal
from bot.platforms.slack.text import (
    escape_markdown,
    escape_text,
    parse_message_text,
    split_into_chunks,
    truncate_text,
    unescape_text,
)
from tests.platforms.slack.doubles import validate
from tools.characters import has_invisible, show_invisible
from tools.spec import DialogField

NASTY = st.sampled_from(
    ["<!channel>", "<@U02LI>", "<https://evil.example|Approve>", "<#C1|x>", "&lt;!here&gt;", "&", "```", "`", "*b*",
     "_i_", ":x:", "> q", "\n", "  ", "张三", "😀", "مرحبا", "\u202e", "\x00", "[Approve](http://e)", "[a]: http://e",
     "\r\n"]
)  # fmt: skip
WRITTEN = st.lists(st.one_of(NASTY, st.text(max_size=30)), max_size=40).map("".join)
LONG = st.tuples(WRITTEN, st.integers(1, 200)).map(lambda pair: (pair[0] * pair[1])[:12_000])
BUTTONS = (Button("Confirm", "confirm", "A03abc", 2, "primary"), Button("Cancel", "cancel", "A03abc", 2))
SHORT = st.lists(st.one_of(NASTY, st.text(max_size=10)), max_size=6).map("".join)
IDS = st.one_of(st.from_regex(r"[UW][A-Z0-9]{4,10}", fullmatch=True), SHORT)
NAMESAKE = ("Another person’s name looks the same",)
PERSON = st.builds(
    NamedPerson, id=IDS, name=SHORT, email=st.one_of(st.just("li_si@example.com"), SHORT),
    marks=st.sampled_from([(), NAMESAKE]),
)  # fmt: skip
PEOPLE = st.builds(
    NamedPeople, people=st.lists(PERSON, min_size=1, max_size=8).map(tuple), text=st.one_of(st.just(""), SHORT)
)
CARDS = st.builds(
    Card,
    title=WRITTEN,
    facts=st.lists(st.tuples(st.sampled_from(["Reason", "Type"]), st.one_of(WRITTEN, LONG)), max_size=14).map(tuple),
    body=LONG,
    buttons=st.just(BUTTONS),
    footer=WRITTEN,
)


def render(post: Post) -> tuple[RenderedMessage, ...]:
    """The messages of a post, if Slack takes them."""
    shown = render_post(post)
    for part in shown:
        validate({"text": part.text, "blocks": list(part.blocks)})
    return shown


def sent(shown: tuple[RenderedMessage, ...]) -> list[str]:
    """Every string of what is sent."""
    return [text for part in shown for text in [part.text, *strings(list(part.blocks))]]


def strings(node: Any) -> list[str]:
    if isinstance(node, str):
        return [node]
    inner = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    return [text for one in inner for text in strings(one)]


def harmless(text: str) -> bool:
    return not re.search(r"<[!@#]|<http|<mailto|<[^>]*\|", text)


def read(shown: tuple[RenderedMessage, ...]) -> str:
    """What a person reads off the sections, in order."""
    read: list[str] = []
    for part in shown:
        for block in part.blocks:
            for text in [block["text"]] if "text" in block else block.get("fields", []):
                if block["type"] == "section":
                    inside = re.sub(r"```\n(.*)\n```", r"\1", text["text"], flags=re.DOTALL)
                    assert "```" not in inside
                    read.append(unescape_text(inside))
    return "\n".join(read)


def squeezed(text: str) -> str:
    """Text without what only joins blocks, and with backticks as they were written."""
    return text.replace("\n", "").replace("⟨U+0060⟩", "`")


@settings(max_examples=60, deadline=None)
@given(CARDS)
def test_cards_show_everything_and_slack_takes_them(card: Card) -> None:
    shown = render(Post(text="A card", card=card))
    assert all(map(harmless, sent(shown)))
    assert not any(map(has_invisible, sent(shown))), "nobody copies what they do not see"
    text = squeezed(read(shown))
    for _, value in card.facts:
        assert squeezed(show_invisible(value)) in text
    assert squeezed(show_invisible(card.body)) in text
    rows = [block for part in shown for block in part.blocks if block["type"] == "actions"]
    assert len(rows) == 1
    assert rows[0] is shown[-1].blocks[-1]
    assert [button["style"] for button in rows[0]["elements"] if "style" in button] == ["primary"]


@settings(max_examples=60, deadline=None)
@given(st.lists(PEOPLE, max_size=4), st.integers(1, 20))
@example([NamedPeople((NamedPerson("", ""),), "<!channel>")], 2)
def test_people_are_mentioned_by_their_ids_and_by_nothing_else(lines: list[NamedPeople], times: int) -> None:
    lines = [replace(line, people=line.people * times) for line in lines]
    shown = render(Post("A card", card=Card("A card", facts=tuple(("Approver", line) for line in lines))))
    mentioned = [id for text in sent(shown) for id in re.findall("<@([^>]*)>", text)]
    assert mentioned == [one.id for line in lines for one in line.people if re.fullmatch("[UW][A-Z0-9]{2,30}", one.id)]
    assert all(harmless(re.sub("<@[UW][A-Z0-9]{2,30}>", "", text)) for text in sent(shown))
    assert all(squeezed(show_invisible(line.text)) in squeezed(read(shown)) for line in lines)


PIECES = st.lists(
    st.one_of(
        SHORT, st.builds(Moment, ms=st.integers(0, 4_102_444_800_000), text=st.just("2026-11-24 10:00")),
        st.builds(NamedPerson, id=IDS, name=SHORT),
    ),
    max_size=12,
).map(tuple)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(PIECES, st.integers(1, 40))
def test_a_sentence_with_people_and_times_calls_nobody_else(pieces: RichText, times: int) -> None:
    """As small print under a card, and as a message of its own."""
    pieces *= times
    ids = [one.id for one in pieces if isinstance(one, NamedPerson) and re.fullmatch("[UW][A-Z0-9]{2,30}", one.id)]
    moments = [one for one in pieces if isinstance(one, Moment)]
    shown = render(Post("A card", card=Card("A card", footer=pieces)))
    said = [
        re.sub(r"<!date\^\d+\^\{date_short_pretty\} \{time\}\|2026-11-24 10:00>", "DATE", one) for one in sent(shown)
    ]
    assert [id for text in said for id in re.findall("<@([^>]*)>", text)] in (ids, []), "whole, or in plain words"
    assert sum(text.count("DATE") for text in said) in (len(moments), 0)
    assert all(harmless(re.sub("<@[UW][A-Z0-9]{2,30}>", "", text)) for text in said)
    words = "".join(
        one if isinstance(one, str) else one.name if isinstance(one, NamedPerson) else one.text for one in pieces
    )
    shown = render(Post(words, plain=True, rich=pieces))
    elements = [one for part in shown for block in part.blocks if block["type"] == "rich_text"
                for section in block["elements"] for one in section["elements"]]  # fmt: skip
    assert [one["user_id"] for one in elements if one["type"] == "user"] in (ids, [])
    assert [one["timestamp"] for one in elements if one["type"] == "date"] in ([one.ms // 1000 for one in moments], [])
    assert {one["type"] for one in elements} <= {"text", "user", "date"}


def test_a_time_is_shown_in_its_readers_own_way() -> None:
    footer = ("Open until ", Moment(1_795_399_200_000, "2026-11-23 10:00"), " · *Li_Si* & co")
    [part] = render(Post("A card", card=Card("A card", footer=footer)))
    [element] = part.blocks[-1]["elements"]
    assert element["text"] == (
        "Open until <!date^1795399200^{date_short_pretty} {time}|2026-11-23 10:00> `· *Li_Si* &amp; co`"
    )
    [part] = render(Post("Approved by Li Si", plain=True, rich=("Approved by ", NamedPerson("U02LI", "Li Si"))))
    assert part.blocks[0]["elements"][0]["elements"][1] == {"type": "user", "user_id": "U02LI"}


def named(*people: NamedPerson, text: str = "") -> list[str]:
    [part] = render(Post("A card", card=Card("A card", facts=(("Approver", NamedPeople(people, text)),))))
    return [one["text"] for block in part.blocks[1:] for one in [*block.get("fields", ()), block.get("text")] if one]


def test_a_person_is_a_mention_with_an_address_and_what_is_to_be_minded() -> None:
    """Only an id of Slack's form is one, and nothing that people call themselves is one, or formatting."""
    li = NamedPerson("U02LI", "李四", "lisi@example.com", marks=NAMESAKE)
    lines = "李四 <@U02LI>\nlisi@example.com\n⚠ Another person’s name looks the same"
    assert named(li) == [f"*Approver*\n{lines}"]
    assert named(li, NamedPerson("W03WANG", "王五")) == [f"*Approver*\n{lines}\n王五 <@W03WANG>"]
    assert named(li, text="李四 agreed <@U0X>") == [f"*Approver*\n李四 agreed &lt;@U0X&gt;\n{lines}"]
    assert named(li, text="李四 *agreed*") == ["*Approver*\n```\n李四 *agreed*\n```", lines]
    poser = NamedPerson("U66MALLORY", "<@U02LI> *lisi*\nlisi@example.com `x`", "li_si@example.com")
    assert named(poser) == [
        "*Approver*\n`&lt;@U02LI&gt; *lisi* lisi@example.com ⟨U+0060⟩x⟨U+0060⟩` <@U66MALLORY>\n`li_si@example.com`"
    ]
    for id in ("", "u02li", "U02LI> <!channel", "!channel", "U02LI|x", "S01TEAM", "U02LI\n", "Ｕ０２ＬＩ"):
        assert named(NamedPerson(id, "Li Si")) == ["*Approver*\nLi Si"], id


def test_thumbs_under_an_answer_are_what_slacks_own_models_know() -> None:
    good = Button("👍", "feedback_good", "R00abc", 1, hint="This answer helped")
    bad = Button("👎", "feedback_bad", "R00abc", 1, hint="x" * 200)
    [message] = render(Post("done", receipt="On record", pairs=((good, bad),)))
    [element] = message.blocks[-1]["elements"]
    known = FeedbackButtonsElement(**{name: value for name, value in element.items() if name != "type"})
    known.validate_json()
    assert known.to_dict() == element
    assert element["positive_button"]["value"] == "good:R00abc.1"
    assert len(element["negative_button"]["accessibility_label"]) == 75


@settings(max_examples=60, deadline=None)
@given(LONG, WRITTEN)
def test_prose_is_sent_whole_and_mentions_nobody(text: str, receipt: str) -> None:
    shown = render(Post(text=text, receipt=receipt))
    assert all(map(harmless, sent(shown)))
    written = [block["text"] for part in shown for block in part.blocks if block["type"] == "markdown"]
    said = "".join(unescape_text(re.sub(r"\](\\)(?=[(\[:])", "]", block)) for block in written)
    assert re.sub(r"\s|\\", "", said) == re.sub(r"\s|\\", "", show_invisible(text))
    assert not any(re.search(r"\][(\[:]", block) for block in written), "a link needs both halves in one block"


def test_the_check_itself_finds_what_is_not_escaped() -> None:
    assert not harmless("hello <!channel>")
    assert not harmless("<@U02LI>")
    assert not harmless("<https://evil.example|ok>")
    assert "<!channel>" in unescape_text(escape_text("<!channel>"))


@example("000\x80\n0\U00010000", 4)
@given(st.text(), st.integers(4, 50))
def test_chunks_are_the_text(text: str, limit: int) -> None:
    pieces = list(split_into_chunks(text, limit))
    assert "".join(pieces) == text
    assert all(len(escape_text(piece).encode()) <= limit or len(piece) == 1 for piece in pieces)


@given(st.text(alphabet="a😀字", max_size=40), st.integers(2, 30))
def test_shortened_keeps_to_the_length(text: str, length: int) -> None:
    short = truncate_text(text, length)
    assert len(short.encode("utf-16-le")) // 2 <= length
    assert short == text or short.endswith("…")


TYPED = (
    ("<@U0BOT> hello", "hello"),
    ("<@U0BOT>: hello", "hello"),
    ("hi <@U0BOT|countersign>, are you there?", "hi are you there?"),
    ("a &lt;b&gt; &amp; c", "a <b> & c"),
    ("&amp;lt;", "&lt;"),
    ("tell <@U02LI|lisi> and <@W9>", "tell <@U02LI> and <@W9>"),
    ("in <#C01|general> or <#C02> or <#C03|>", "in #general or #C02 or #C03"),
    ("<https://a.example/x?a=1&amp;b=2>", "https://a.example/x?a=1&b=2"),
    ("<https://a.example|the page>", "the page (https://a.example)"),
    ("<https://a.example|a.example>", "https://a.example"),
    ("<mailto:li@example.com|li@example.com>", "li@example.com"),
    ("<!here> <!channel|channel> <!date^1^{date}|today>", "@here channel today"),
    ("ask <!subteam^S01|@li.si> or <!subteam^S02>", "ask @li.si (group S01) or @group S02"),
    ("bad \ud83d half", "bad \ufffd half"),
    ("line one\nline two <@U0BOT>", "line one\nline two"),
)


def test_what_people_type_is_readable() -> None:
    assert [(typed, parse_message_text(typed, "U0BOT")) for typed, _ in TYPED] == [*TYPED]


def test_short_facts_stand_in_two_columns_and_a_title_the_header_cannot_show_is_repeated() -> None:
    facts = (("Type", "Annual leave"), ("From", "2026-12-01"), ("Days", "10"))
    [part] = render(Post("", card=Card("Leave request", facts)))
    assert [len(block.get("fields", ())) for block in part.blocks] == [0, 2, 0]
    assert part.blocks[1]["fields"][0]["text"] == "*Type*\nAnnual leave"
    assert part.blocks[2]["text"]["text"] == "*Days*\n10" and part.text == "Leave request"
    [part] = render(Post("", card=Card("Mail to <Li Si>", buttons=BUTTONS)))
    assert [block["text"]["text"] for block in part.blocks[:2]] == ["Mail to ‹Li Si›", "Mail to &lt;Li Si&gt;"]


@settings(max_examples=30, deadline=None)
@given(st.lists(CARDS, max_size=5), WRITTEN)
def test_home_shows_cards_whole_or_counts_them(cards: list[Card], title: str) -> None:
    waiting = HomeSection("Waiting", tuple(map(HomeEntry, cards)), "Nothing.")
    shown = home.render_home_view(HomeView("Hi " + title, (waiting, HomeSection("Mine"))), "en")
    validate({"view": shown})
    assert all(map(harmless, strings(shown)))
    rows = sum(block["type"] == "actions" for block in shown["blocks"])
    assert rows == len(cards) or f"{len(cards) - rows} more" in shown["blocks"][-1]["elements"][0]["text"]


@settings(max_examples=40, deadline=None)
@given(WRITTEN, WRITTEN, LONG)
def test_dialogs_are_such_as_slack_takes(title: str, label: str, value: str) -> None:
    options = tuple((f"v{number}", label) for number in range(3))
    kinds = {"text": value, "long": value, "date": value, "choice": "v1", "person": value}
    fields = [DialogField(name=kind, label="x", kind=kind, value=given) for kind, given in kinds.items()]
    dialog = Dialog(
        title=title, submit=title, cancel=title, approval="A03abc", version=1, choice="edit",
        place=Place(team="T0", channel="D1"),
        inputs=tuple(FormInput(one, label, options if one.kind == "choice" else ()) for one in fields),
    )  # fmt: skip
    shown = render_modal(dialog)
    validate({"view": shown})
    labels = [shown["title"], shown["submit"], *(block["label"] for block in shown["blocks"])]
    assert all(harmless(text) for text in strings(labels))
    typed = [block["element"].get("initial_value", "") for block in shown["blocks"]]
    assert "".join(typed) == value + value


MARKDOWN = (
    ("https://x.example/?a=1&b=2", "https://x.example/?a=1&b=2"),
    ("R&D", "R&D"),
    ("&lt;!channel&gt;", "&amp;lt;!channel&amp;gt;"),
    ("&#60;!here&#62; &copy;", "&amp;#60;!here&amp;#62; &amp;copy;"),
    ("> quoted\n>> twice\n   > so\nnot > here", "> quoted\n>> twice\n   > so\nnot &gt; here"),
    ("><!channel>", ">&lt;!channel&gt;"),
    ("<@U02LI>", "&lt;@U02LI&gt;"),
    ("a -> b", "a -&gt; b"),
)


def test_markdown_keeps_links_and_quotations_and_lets_nobody_be_called() -> None:
    assert [(written, escape_markdown(written)) for written, _ in MARKDOWN] == [*MARKDOWN]
    for message in render(Post("](" * 9_000)):  # each of these hidden links gets a backslash, after the text was cut
        assert sum(len(one["text"]) for one in message.blocks if one["type"] == "markdown") <= 12_000


def test_what_is_void_is_struck_through_and_is_no_formatting() -> None:
    """Facts of a cancelled card: literal, mentioning nobody, whole; too long for one text, as on every other card."""
    person = NamedPeople((NamedPerson("U02LI", "李四"),))
    facts = (("Reason", "*a* <@U03WANG> ~b~"), ("审批人", person), ("Empty", ""))
    [part] = render(Post("x", card=Card("Cancelled by you", facts, is_void=True)))
    [struck] = [block for block in part.blocks if block["type"] == "rich_text"]
    [text] = struck["elements"][0]["elements"]
    assert text["style"] == {"strike": True}
    assert text["text"] == "Reason · *a* <@U03WANG> ~b~\n审批人 · 李四\nEmpty · —"
    [open_part] = render(Post("x", card=Card("Start?", facts)))
    assert "strike" not in str(open_part.blocks) and "<@U02LI>" in str(open_part.blocks), "the control: an open one"
    long = render(Post("x", card=Card("Cancelled", (("Reason", "文" * 6_000),), is_void=True)))
    assert "".join(str(one.blocks) for one in long).count("文") == 6_000
