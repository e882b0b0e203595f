from __future__ import annotations

import pytest

from tests.tools.office import GONE, LI, LIN, PEOPLE, WANG, ZHANG, office
from tools.names import find, the_one
from tools.spec import Person, ToolError


@pytest.mark.parametrize(
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
        ("李", [LI, LIN]),
        ("四光", [LIN]),
        ("zhang", [ZHANG]),
        ("wu", [WANG]),
        ("lin@example.com", [LIN]),
        ("l", []),
        ("", []),
        ("<@U99>", []),
        ("钱七", []),
        ("U6", []),
        ("张三丰", []),
    ],
)
def test_finding(text: str, expected: list[Person]) -> None:
    assert list(find(PEOPLE, text)) == expected


def test_an_exact_name_wins_over_a_longer_one() -> None:
    assert the_one(PEOPLE, "李四") == LI


def test_namesakes_are_asked_about() -> None:
    twin = LI.model_copy(update={"id": "U9", "title": "Designer"})
    with pytest.raises(ToolError) as error:
        the_one((*PEOPLE, twin), "李四")
    assert (error.value.code, error.value.ask) == ("ambiguous_person", True)
    assert "Team lead" in error.value.text and "Designer" in error.value.text and "U9" in error.value.text


def test_many_candidates_are_cut_short() -> None:
    crowd = [Person(id=f"P{n}", name=f"王{n}") for n in range(50)]
    with pytest.raises(ToolError) as error:
        the_one(crowd, "王")
    assert "42 more" in error.value.text


async def test_list_people_pages_and_shows_no_addresses() -> None:
    there = office()
    there.people.known = [Person(id=f"P{n:02d}", name=f"人{n:02d}", email="x@example.com") for n in range(45)]
    first = await there.look(ZHANG, "list_people")
    third = await there.look(ZHANG, "list_people", page=3)
    assert (len(first["people"]), first["more"]) == (20, 2)
    assert (len(third["people"]), third["more"]) == (5, None)
    assert first["people"][0] == {"id": "P00", "name": "人00", "also": [], "title": ""}
    assert "@" not in str(first)


async def test_list_people_knows_only_the_active() -> None:
    there = office()
    assert (await there.look(ZHANG, "list_people", name="钱"))["people"] == []
    everybody = (await there.look(ZHANG, "list_people"))["people"]
    assert GONE.id not in [p["id"] for p in everybody]
