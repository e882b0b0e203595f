"""Who a name means, and looking people up."""

import unicodedata
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness.corpus import corpus
from tests.tools.office import GONE, LI, LIN, PEOPLE, WANG, ZHANG, office
from tools.people.identities import remember_by_list
from tools.people.lookalikes import is_lookalike
from tools.people.names import (
    choose_name,
    find_people,
    format_stand_in,
    is_searchable_name,
    join_in_both_languages,
    list_names_by_language,
    resolve_person,
)
from tools.spec import Person, ToolError


@corpus(
    ("text", "expected"),
    [
        ("U2", [LI]),
        ("<@U2>", [LI]),
        ("<@U2|li>", [LI]),
        ("李四", [LI]),
        ("Li Si", [LI]),
        ("lisi", [LI]),
        ("  LI   SI ", [LI]),
        ("Ｌｉ Ｓｉ", [LI]),
        ("Li\u200b Si\u200f", [LI]),
        ("李", [LI, LIN]),
        ("文光", [LIN]),
        ("zhang", [ZHANG]),
        ("wu", [WANG]),
        ("enguan", [LIN]),
        ("lin@example.com", [LIN]),
        (" LIN@Example.COM\u200b", [LIN]),
        ("lin＠example．com", [LIN]),
        ("l", []),
        ("", []),
        ("\u200b", []),
        ("<@U99>", []),
        ("<@U2> <@U3>", []),
        ("钱七", []),
        ("U6", []),
        ("张三丰", []),
        ("lin@", []),
        ("@lisi", []),
    ],
)
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
    [
        ("李四", "李四光", "李四"),
        ("Wang", "Wang Wu", "Wang"),
        ("Wu", "Wang Wu", "wu"),
        ("小明", "王小明", "小明"),
        ("W", "Wang Wu", "W"),
        ("O'Neil", "O'Neill", "o'neil"),
    ],
)
def test_an_exact_name_never_wins_over_another_in_which_it_stands(short: str, long: str, typed: str) -> None:
    one, other = Person(id="P1", name=short), Person(id="P2", name=long)
    assert "P1" in asked((one, other), typed).text
    assert resolve_person((one, other), long) == other
    assert resolve_person((one,), typed) == one, "there is nobody else"


def test_a_part_inside_a_word_of_somebody_elses_name_makes_no_doubt() -> None:
    ann, joanna = Person(id="P1", name="Ann Lee"), Person(id="P2", name="Joanna Smith")
    assert resolve_person((ann, joanna), "ann") == ann
    assert resolve_person((joanna,), "anna") == joanna
    poser = Person(id="U0MALLORY", name="U02LISI00", email="mallory@example.com")
    assert not find_people((poser,), "U02LISI00").is_certain
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
        "zh": "「李四」（lisi@example.com，Engineering，主管「王五」）；"
        "「李四」（mallory@example.com，不在公司名录里）",
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
    with pytest.raises(ToolError) as nobody:
        await office().look(ZHANG, "list_people", manager="nobody")
    assert nobody.value.code == "unknown_person"


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
    [
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
    ],
)
def test_a_name_in_the_readers_script(name: str, others: tuple[str, ...], zh: str, en: str) -> None:
    person = Person(id="U1", name=name, names=others)
    assert (choose_name(person, "zh"), choose_name(person, "en")) == (zh, en)
    assert list_names_by_language(person) == {"zh": zh, "en": en}


def test_several_and_who_stands_in() -> None:
    li, wang = {"zh": "李四", "en": "Li Si"}, {"zh": "王五", "en": "Wang Wu"}
    assert join_in_both_languages([li, wang]) == {"zh": "李四、王五", "en": "Li Si, Wang Wu"}
    assert format_stand_in(li, wang) == {"zh": "李四（代王五）", "en": "Li Si for Wang Wu"}
