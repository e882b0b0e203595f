"""Who a name means, also where colleagues pose as others; looking people up; and persons as cards name them."""

import unicodedata
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness.corpus import corpus
from tests.tools.company import CHOICE, GONE, LI, LIN, PEOPLE, SICK, WANG, ZHANG, ZHAO
from tests.tools.office import Office, office, refused
from tools.people.identities import identify_people, remember_by_list
from tools.people.lookalikes import is_lookalike
from tools.people.names import (
    PersonMatches,
    choose_name,
    find_people,
    is_searchable_name,
    list_names_by_language,
    resolve_person,
)
from tools.platform_ids import FILE_ID, MENTION, PERSON_ID
from tools.spec import CardField, Identities, Person, Proposal, TextRef, ToolError


@corpus(
    ("text", "expected"),
    ("U2", [LI]), ("<@U2>", [LI]), ("<@U2|li>", [LI]), ("李四", [LI]), ("Li Si", [LI]), ("lisi", [LI]),
    ("  LI   SI ", [LI]), ("Ｌｉ Ｓｉ", [LI]), ("Li\u200b Si\u200f", [LI]), ("李", [LI, LIN]), ("文光", [LIN]),
    ("zhang", [ZHANG]), ("wu", [WANG]), ("enguan", [LIN]), ("lin@example.com", [LIN]),
    (" LIN@Example.COM\u200b", [LIN]), ("lin＠example．com", [LIN]), ("l", []), ("", []), ("\u200b", []),
    ("<@U99>", []), ("<@U2> <@U3>", []), ("钱七", []), ("U6", []), ("张三丰", []), ("lin@", []), ("@lisi", []),
)  # fmt: skip
def test_finding(text: str, expected: list[Person]) -> None:
    found = find_people(PEOPLE, text)
    assert list(found.people) == expected
    assert found.is_certain == (len(expected) == 1)


def asked(people: tuple[Person, ...], text: str) -> ToolError:
    with pytest.raises(ToolError) as error:
        resolve_person(people, text)
    assert (error.value.code, error.value.ask) == ("ambiguous_person", True)
    return error.value


@corpus(
    ("short", "long", "typed"),
    ("李四", "李四光", "李四"), ("Wang", "Wang Wu", "Wang"), ("Wu", "Wang Wu", "wu"), ("小明", "王小明", "小明"),
    ("W", "Wang Wu", "W"), ("O'Neil", "O'Neill", "o'neil"),
)  # fmt: skip
def test_an_exact_name_never_wins_over_another_in_which_it_stands(short: str, long: str, typed: str) -> None:
    one, other = Person(id="P1", name=short), Person(id="P2", name=long)
    assert "P1" in asked((one, other), typed).text
    assert resolve_person((one, other), long) == other
    assert resolve_person((one,), typed) == one, "there is nobody else"


def test_a_part_inside_a_word_of_somebody_elses_name_makes_no_doubt() -> None:
    ann, joanna = Person(id="P1", name="Ann Lee"), Person(id="P2", name="Joanna Smith")
    assert resolve_person((ann, joanna), "ann") == ann
    assert resolve_person((joanna,), "anna") == joanna
    crowd = [Person(id=f"P{n}", name=f"王{n}") for n in range(50)]
    with pytest.raises(ToolError) as error:
        resolve_person(crowd, "王")
    assert "42 more" in error.value.text


def test_namesakes_are_asked_about_with_what_they_cannot_choose_themselves() -> None:
    boss = WANG.model_copy(update={"department": "Board"})
    li = LI.model_copy(update={"department": "Engineering"})
    twin = Person(id="U9", name="李四", title="Team lead", email="mallory@example.com", is_in_directory=False)
    error = asked((li, boss, twin), "李四")
    assert "“李四” / “Li Si” (lisi@example.com, Engineering, manager “王五” / “Wang Wu”) = U2" in error.text
    assert "“李四” (mallory@example.com, not in the company directory) = U9" in error.text
    assert "Team lead" not in error.text, "a title may be what somebody says of themselves"
    assert error.params["candidates"] == {
        "zh": "「李四」（lisi@example.com，Engineering，上级「王五」）；"
        "「李四」（mallory@example.com，不在公司通讯录里）",
        "en": "“Li Si” (lisi@example.com, Engineering, manager “Wang Wu”); "
        "“李四” (mallory@example.com, not in the company directory)",
    }
    liar = Person(id="U9", name="李四” (lisi@example.com)\u2028“", names=("李四",), email="mallory@example.com")
    text = asked((LI, liar), "李四").text
    assert "“李四 (lisi@example.com)⟨U+2028⟩” (mallory@example.com) = U9" in text


async def test_list_people_pages_and_tells_what_is_given_from_what_people_say_of_themselves() -> None:
    there = office()
    said, given = {"title": "CFO", "email": "x@example.com"}, {"is_title_official": True, "department": "Finance"}
    there.people.known = [Person(id=f"P{n:02d}", name=f"人{n:02d}", **said) for n in range(44)]
    there.people.known += [Person(id="P44", name="人44", manager="P00", is_in_directory=True, **given, **said)]
    there.people.known[0] = there.people.known[0].model_copy(update={"is_in_directory": False, "names": ("A\u200bB",)})
    first = await there.look(ZHANG, "list_people")
    third = await there.look(ZHANG, "list_people", page=3)
    assert (len(first["people"]), first["more"]) == (20, 2)
    assert (len(third["people"]), third["more"]) == (5, None)
    self_made = {"name": "人00", "also": ["A⟨U+200B⟩B"], "own_title": "CFO"}
    assert first["people"][0] == {"id": "P00", **self_made, "email": "x@example.com", "in_company_directory": False}
    official = {"title": "CFO", "department": "Finance", "manager": "人00", "email": "x@example.com"}
    assert third["people"][-1] == {"id": "P44", "name": "人44", "also": [], **official}


SIGNS = st.sampled_from([*"LliI1 SsаіЅ@王二ニ.", "Ｌ", "\u200b", "\u202e", "\u0131", "é", "rn", "m"])
NAMES = st.lists(SIGNS, min_size=1, max_size=6).map("".join)
ADDRESSES = st.sampled_from(["li@example.com", "LI@EXAMPLE.COM", "wang@example.com", ""])


@st.composite
def companies(draw: st.DrawFn) -> tuple[Person, ...]:
    """People who call themselves what they like; addresses are each somebody's own, as on any platform."""
    called = draw(st.lists(st.tuples(NAMES, st.lists(NAMES, max_size=2)), min_size=1, max_size=5))
    addresses = draw(st.permutations(["li@example.com", "wang@example.com", "", "", ""]))
    return tuple(
        Person(id=f"U0{n}PERSON", name=name, names=tuple(names), email=address)
        for n, ((name, names), address) in enumerate(zip(called, addresses, strict=False))
    )


TYPED = st.one_of(NAMES, ADDRESSES, ADDRESSES.map(lambda text: text.replace("@", "＠")), st.text(max_size=8))


def names_of(person: Person) -> tuple[str, ...]:
    return person.name, *person.names


@given(companies(), TYPED)
def test_nobody_is_found_by_a_name_that_poses_as_an_address(people: tuple[Person, ...], text: str) -> None:
    found = find_people(people, text)
    if "@" in unicodedata.normalize("NFKC", text):
        assert all(one.email.casefold() == one_address(text) for one in found.people)
    for one in found.people if found.is_certain else ():
        by_name = not one_address(text) or one.email.casefold() != one_address(text)
        assert not by_name or any(map(is_searchable_name, names_of(one)))


def one_address(text: str) -> str:
    plain = unicodedata.normalize("NFKC", "".join(c for c in text if c != "\u200b"))
    return " ".join(plain.split()).casefold() if "@" in plain else ""


@given(companies(), TYPED)
def test_whoever_looks_alike_is_never_passed_over(people: tuple[Person, ...], text: str) -> None:
    found = find_people(people, text)
    if found.is_certain and text.strip() not in [one.id for one in people] and not one_address(text):
        alike = [one for one in people if any(is_lookalike(text, name) for name in names_of(one))]
        assert alike in ([], [found.people[0]])


@given(companies())
def test_an_exact_id_and_an_exact_address_always_lead_to_their_owner(people: tuple[Person, ...]) -> None:
    for one in people:
        assert resolve_person(people, one.id) == one
        assert resolve_person(people, f"<@{one.id}>") == one
        if one.email:
            assert resolve_person(people, one.email.swapcase()) == one


async def test_who_is_in_a_department_has_a_role_or_is_led_by_somebody() -> None:
    async def names_in(**asked: str) -> list[str]:
        return [one["name"] for one in (await office().look(ZHANG, "list_people", **asked))["people"]]

    assert await names_in(department="FINANCE") == ["赵六"]
    assert await names_in(manager="李四") == ["张三"]
    assert await names_in(manager="wangwu@example.com") == ["李四", "赵六"]
    assert await names_in(name="李", manager="李四") == []
    assert await names_in(name="钱") == [] and GONE.name not in await names_in(), "only the active"
    unknown = await office().look(ZHANG, "list_people", department="Marketing")
    assert unknown["people"] == [] and "departments" in unknown
    assert (await refused(office().look(ZHANG, "list_people", manager="nobody"))).code == "unknown_person"


def test_it_is_made_again_for_another_list_only_and_what_may_change_is_not_remembered() -> None:
    made = list[Sequence[str]]()

    @remember_by_list
    def count(people: Sequence[str]) -> tuple[int, ...]:
        made.append(people)
        return (len(people) + 1_000,)

    people = ("Ann", "Bob")
    assert count(people) is count(people) and len(made) == 1
    equal = tuple(["Ann", "Bob"])
    assert count(equal) is count(people)  # the same value, though it was made again
    assert len(made) == 3

    @remember_by_list
    def measure(people: Sequence[str]) -> int:
        return len(people)

    changing = ["Ann"]
    assert measure(changing) == 1
    changing.append("Bob")
    assert measure(changing) == 2


@corpus(
    ("name", "others", "zh", "en"),
    ("李四", ("Li Si", "lisi"), "李四", "Li Si"),
    ("Li Si", ("李四", "lisi"), "李四", "Li Si"),
    ("Ann Smith", ("ann",), "Ann Smith", "Ann Smith"),
    ("李四", ("lisi",), "李四", "李四"),
    ("李四", ("lisi@example.com", "U02LI77"), "李四", "李四"),
    ("李四", ("Li\u200b Si",), "李四", "李四"),
    ("李四", ("老板（代理）", "Chef 4"), "李四", "李四"),
    ("Jürgen Groß", ("Jurgen",), "Jürgen Groß", "Jürgen Groß"),
    ("O’Neil", (), "O’Neil", "O’Neil"),
    ("Олег", ("Oleg",), "Олег", "Oleg"),
    ("Ab", (), "Ab", "Ab"),
    ("李四", ("<!channel>", "*Boss*", "Li\nSi"), "李四", "李四"),
)
def test_a_name_in_the_readers_script(name: str, others: tuple[str, ...], zh: str, en: str) -> None:
    person = Person(id="U1", name=name, names=others)
    assert (choose_name(person, "zh"), choose_name(person, "en")) == (zh, en)
    assert list_names_by_language(person) == {"zh": zh, "en": en}


# Colleagues who call themselves somebody else's address, name or the beginning of one


MAIL = {"subject": "工资单", "body": "请看附件里的数字。"}
ADDRESS = Person(id="U66", name="lisi@example.com", names=("mallory",), email="mallory@example.com")
FULL_WIDTH = Person(id="U67", name="lisi＠example.com", names=("mallory",), email="mallory@example.com")
SHORT = Person(id="U68", name="Wang", names=("mallory",), email="mallory@example.com")
CYRILLIC = Person(id="U69", name="Lі Sі", names=("mallory",), email="mallory@example.com")
ZERO_WIDTH = Person(id="U70", name="Li\u200b Si", names=("mallory",), email="mallory@example.com")
CAPITAL = Person(id="U71", name="zhangsan", names=("lisi", "Iisi"), email="mallory@example.com")


def attacked(*impostors: Person) -> Office:
    there = office(policy=CHOICE)
    there.people.known += impostors
    return there


@corpus("impostor", ADDRESS, FULL_WIDTH)
async def test_an_address_means_its_owner_wherever_a_person_is_named(impostor: Person) -> None:
    there, address = attacked(impostor), "lisi@example.com"
    await there.do(ZHANG, "send_email", "send", to=address, **MAIL)
    assert [mail.to for mail in there.mailer.mails] == [LI.id]
    leave = await there.plan(ZHANG, "start_process", process="leave", form={**SICK, "approver": address})
    assert leave.args["form"]["approver"] == LI.id
    days = {"first_day": "2026-11-23", "last_day": "2026-12-22"}
    assert (await there.plan(ZHANG, "set_absence", deputy=address, **days)).args["deputy"] == LI.id
    await there.start({**SICK, "approver": WANG.id})
    assert (await there.plan(ZHANG, "cc_request", request_id="L-0001", people=[address])).args["people"] == [LI.id]
    sign = {"task_id": "L-0001-1", "where": "before", "mode": "all"}
    assert (await there.plan(WANG, "add_sign", people=[address], **sign)).args["people"] == [LI.id]
    outcome = await there.do(WANG, "transfer_task", task_id="L-0001-1", person="LiSi@Example.com")
    assert outcome.data["waits_for"] == ["Li Si"]
    (task,) = (await there.engine.get_request("L-0001")).open_tasks
    assert task.assignee == LI.id


@corpus(
    ("impostor", "typed"),
    (SHORT, "Wang"), (SHORT, "wang"), (CYRILLIC, "Li Si"), (CYRILLIC, "Lі Sі"), (ZERO_WIDTH, "Li Si"),
    (ZERO_WIDTH, "Li\u200b Si"), (CAPITAL, "zhangsan"), (CAPITAL, "Iisi"),
)  # fmt: skip
async def test_whoever_may_be_mistaken_is_asked_about(impostor: Person, typed: str) -> None:
    error = await refused(attacked(impostor).plan(ZHAO, "send_email", to=typed, **MAIL))
    assert (error.code, error.ask) == ("ambiguous_person", True)
    assert impostor.id in error.text, "what is asked shows everybody who may be meant"


# Persons on cards: what is stored with a card, and who may be mistaken


def people_of(plan: Proposal) -> dict[str, list[str]]:
    """Label → ids of the persons named there."""
    named = [fact for fact in plan.fields if isinstance(fact.value, Identities)]
    labels = [fact.label if isinstance(fact.label, str) else fact.label["en"] for fact in named]
    return {label: [one.id for one in fact.value.people] for label, fact in zip(labels, named, strict=True)}  # type: ignore[union-attr]


async def test_every_person_that_a_card_names_can_be_checked() -> None:
    """Beside those that the golden files show."""
    there = office()
    await there.start({**SICK, "end_date": "2026-11-27"})
    card = await there.card("L-0001-1")
    assert people_of(card) == {"requester": [ZHANG.id], "Approver": [LI.id], "Second approver": [WANG.id]}
    await there.do(LI, "set_absence", first_day="2026-11-20", last_day="2026-11-27", deputy=ZHAO.id)
    assert people_of(await there.plan(LI, "end_absence"))["deputy"] == [ZHAO.id]
    await there.decide(ZHAO, "L-0001-1", "approve", {"opinion": "好"})
    assert people_of(await there.card("L-0001-2"))["opinion"] == [ZHAO.id, LI.id], "who stood in, and for whom"
    form = {"amount": "2000", "category": "transport", "reason": "去客户现场", "approver": LI.id}
    plan = await there.plan(ZHANG, "start_process", process="expense", form=form)
    assert [ZHAO.id] in people_of(plan).values(), "everybody of finance"


@corpus(
    ("other", "shared", "misleading"),
    ({"name": "Bob"}, False, False),
    ({"name": "李四"}, True, False),
    ({"name": "Bob", "names": ("Lі Sі",)}, True, False),
    ({"name": "Bob", "names": ("L\u200bi Si",)}, True, True),
    ({"name": "lisi@example.com"}, True, True),
    ({"name": "Bob", "names": ("U02LISI00",)}, False, True),
    ({"name": "李四", "active": False}, True, False),
)
async def test_who_may_be_mistaken_is_marked(other: dict[str, object], shared: bool, misleading: bool) -> None:
    there = office()
    there.people.known = [*PEOPLE, Person.model_validate({"id": "U9", **other})]
    [one] = (await identify_people(there.people, ["U9"])).people
    assert (one.is_name_shared, one.is_name_misleading) == (shared, misleading)
    [li] = (await identify_people(there.people, [LI.id])).people
    taken = shared and other.get("active", True) and "@" not in str(other["name"])
    assert li.is_name_shared == taken, "nobody is mistaken for who has left, nor the owner of an address for who poses"


def test_what_was_shown_is_stored_and_what_an_older_version_stored_is_read() -> None:
    value = Identities(people=(), text=TextRef(key="fact.agreement", params={"names": "李四"}))
    for stored in ("李四", {"zh": "李四", "en": "Li Si"}, TextRef(key="fact.days", params={"days": 1}), value):
        fact = CardField(label="to", value=stored)
        assert CardField.model_validate_json(fact.model_dump_json()) == fact
    assert CardField.model_validate_json('{"label": "to", "value": "李四"}').value == "李四"


# The forms of ids: Slack's, and Feishu's beside them


FEISHU_ID = "ou_2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b02"
FILE = "om_dc13264520392913993dd051dba21dcf/file/file_v3_00ab_12345678-90ab-cdef-1234-567890abcdeg"


@corpus("id", "W012A3CDE", FEISHU_ID, "ou_84aad35d084aa403a838cf73ee18467")
def test_ids_of_people_are_known_and_can_be_mentioned(id: str) -> None:
    assert PERSON_ID.fullmatch(id)
    for one in (id, "U02LI"):
        found = MENTION.fullmatch(f"<@{one}>")
        assert found and found[1] == one


def test_ids_of_files_are_known_and_other_words_and_addresses_are_no_ids() -> None:
    words = ["ou_", "ou_ab", "OU_2B2B2B2B", "on_2b2b2b2b2b", "ou_2b2b 2b2b", f"{FEISHU_ID}\n", "oubliette"]
    assert not [one for one in words if PERSON_ID.fullmatch(one)]
    files = ["F0123ABCD", FILE, FILE.replace("/file/", "/image/")]
    assert FILE_ID.findall(",".join(files)) == [one for one in files if FILE_ID.fullmatch(one)] == files
    addresses = [FILE.replace("om_", "oc_"), FILE.replace("/file/", "/exe/"), f"{FILE}/..", "om_1/file/x"]
    assert not [one for one in addresses if FILE_ID.fullmatch(one)]


@corpus("id", "U02LI5678", FEISHU_ID)
def test_an_id_as_a_name_is_certainly_nobody(id: str) -> None:
    """Control: a plain name finds its person, and an id its own."""
    li, poser = Person(id=id, name="李四"), Person(id=id[:-1] + "9", name=id, names=(id,))
    assert find_people([li, poser], id) == PersonMatches((li,), True)
    assert not find_people([poser], id).is_certain and not is_searchable_name(id)
    assert find_people([li, poser], "李四") == find_people([li, poser], f"<@{id}>") == PersonMatches((li,), True)
