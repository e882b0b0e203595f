"""Posts, dialogs and pages as hypothesis makes them."""

from dataclasses import replace

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

from bot.chat.messages import (
    Button,
    Card,
    Dialog,
    FormInput,
    HomeButton,
    HomeEntry,
    MessageRef,
    Moment,
    NamedPeople,
    NamedPerson,
    PersonPicker,
    Place,
    Post,
    StepLine,
    StepList,
    StepState,
    TickList,
    TickOption,
)
from tools.spec import DialogField

SLOW = settings(
    max_examples=25,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
NASTY = st.sampled_from(
    ["<at id=all></at>", "<at id=ou_1234567890>", "<a href='https://evil.example'>x</a>", "<font color='red'>",
     "</font>", "&lt;at id=all&gt;", "&#60;at id=all&#62;", "&", "<", ">", "```", "`", "~~~", "*b*", "**", "_i_",
     "~~s~~", ":OK:", "> q", "# h", "- l", "+ l", "1. l", "---", "===", "| a | b |\n| - | - |\n", "\n", "\n\n",
     "    ", "\t", "张三", "😀", "\u202e", "\x00", "[Approve](http://e)", "[a]: http://e", "[a][b]",
     "![x](https://e/p.png)", "\\", "\\<", "\r\n", "<!--", "<br>", "<https://e.example>", "](", "]["]
)  # fmt: skip
WRITTEN = st.lists(st.one_of(NASTY, st.text(max_size=20)), max_size=25).map("".join)
GROUP = Place(platform="feishu", team="t1", channel="oc_1", thread="om_1", shared=True)
DIRECT = Place(platform="feishu", team="t1", channel="oc_2", direct=True)
LONG = st.tuples(WRITTEN, st.integers(1, 200)).map(lambda pair: (pair[0] * pair[1])[:2_500])
SHORT = st.lists(st.one_of(NASTY, st.text(max_size=10)), max_size=6).map("".join)
BRIEF = SHORT.map(lambda text: text[:9])
IDS = st.one_of(st.from_regex(r"ou_[0-9a-f]{32}", fullmatch=True), SHORT)
PERSON = st.builds(
    NamedPerson, id=IDS, name=BRIEF, email=st.one_of(st.just("li_si@example.com"), BRIEF),
    more=st.lists(SHORT, max_size=2).map(tuple),
    marks=st.sampled_from([(), ("Another person’s name looks the same",)]),
)  # fmt: skip
PEOPLE = st.builds(NamedPeople, people=st.lists(PERSON, min_size=1, max_size=8).map(tuple), text=SHORT)
MOMENT = st.builds(Moment, ms=st.just(1_795_140_000_000), text=st.just("2026-11-20 10:00"))
RICH = st.lists(st.one_of(SHORT, PERSON, MOMENT), min_size=1, max_size=5).map(tuple)
BUTTON = st.builds(
    Button, label=SHORT, choice=st.sampled_from(["approve", "reject", "form:open:0", "say_1"]),
    approval=st.sampled_from(["A03abc", "set:ou_1:0f3a"]), version=st.integers(0, 99),
    style=st.sampled_from(["", "primary"]), seal=st.sampled_from(["", "0123456789ab"]),
)  # fmt: skip
TICKS = st.lists(st.tuples(WRITTEN, SHORT, st.booleans()), min_size=1, max_size=50).map(
    lambda found: TickList("set:ou_1:0f3a", 3, tuple(TickOption(str(number), *one) for number, one in enumerate(found)))
)
CARDS = st.builds(
    Card, title=WRITTEN, body=LONG, buttons=st.lists(BUTTON, max_size=30).map(tuple), footer=st.one_of(WRITTEN, RICH),
    facts=st.lists(st.tuples(BRIEF, st.one_of(SHORT, LONG, PEOPLE)), max_size=5).map(tuple),
    when=st.one_of(st.none(), MOMENT), lead=WRITTEN, ticks=st.one_of(st.none(), TICKS), is_void=st.booleans(),
).map(lambda card: replace(card, buttons=card.buttons[:4]) if card.ticks else card)  # fmt: skip
STEP = st.builds(StepLine, title=WRITTEN, details=SHORT, state=st.sampled_from(StepState))
STEPS = st.builds(StepList, title=SHORT, steps=st.lists(STEP, max_size=80).map(tuple))
THUMBS = (Button("👍", "x_for", "R1", 1, hint="good"), Button("👎", "x_against", "R1", 1))
POSTS = st.builds(
    Post, text=LONG, card=st.one_of(st.none(), CARDS), receipt=WRITTEN, plain=st.booleans(),
    buttons=st.lists(BUTTON, max_size=7).map(tuple), people=st.one_of(st.none(), PEOPLE),
    picker=st.one_of(st.none(), st.just(PersonPicker("Somebody else", "approver", "R1", 1))),
    rich=st.one_of(st.just(()), RICH), pairs=st.sampled_from([(), (THUMBS,)]),
    steps=st.one_of(st.none(), st.none(), STEPS),
)  # fmt: skip
OPTIONS = st.lists(st.tuples(st.sampled_from("abcdefgh"), SHORT), max_size=8, unique_by=lambda one: one[0]).map(tuple)
FIELD = st.builds(
    DialogField, name=st.sampled_from([f"field_{number}" for number in range(12)]), label=st.just("x"),
    kind=st.sampled_from(["text", "long", "date", "choice", "number", "person", "people", "file", "shown"]),
    value=st.one_of(SHORT, st.sampled_from(["2026-11-20", "a", "1.5", f"ou_{'0' * 32}"]), st.text(max_size=2_500)),
    required=st.booleans(), max_length=st.sampled_from([10, 3_000]),
)  # fmt: skip
FIELDS = st.lists(FIELD, max_size=12, unique_by=lambda field: field.name)


@st.composite
def dialogs(draw: st.DrawFn) -> Dialog:
    return Dialog(
        title=draw(WRITTEN), submit=draw(SHORT), cancel=draw(SHORT), approval="A1", version=2, choice="edit",
        place=GROUP, inputs=tuple(FormInput(one, draw(SHORT), draw(OPTIONS), draw(SHORT)) for one in draw(FIELDS)),
        card=draw(st.sampled_from([None, MessageRef(channel="oc_1", ts="om_9")])), lead=draw(SHORT), seal="5ea1",
        matter=draw(SHORT), about=tuple(draw(st.lists(st.tuples(SHORT, st.one_of(SHORT, PEOPLE)), max_size=3))),
        more=draw(st.sampled_from(["", "More"])), kept=draw(st.sampled_from([(), (("ticked", "0,1"),)])),
    )  # fmt: skip


INPUTS = FIELDS.map(
    lambda fields: tuple(FormInput(one, one.name, (("a", "A"),), "hint") for one in fields if one.kind != "shown")
)
HOME_BUTTON = st.builds(HomeButton, label=SHORT, action=st.just("open"), value=st.just("A1.2"))
ENTRIES = st.builds(
    HomeEntry, buttons=st.lists(HOME_BUTTON, max_size=2).map(tuple),
    card=st.builds(
        Card, title=SHORT, facts=st.lists(st.tuples(SHORT, SHORT), max_size=4).map(tuple),
        buttons=st.lists(BUTTON, max_size=3).map(tuple), body=st.one_of(st.just(""), LONG),
    ),
)  # fmt: skip
