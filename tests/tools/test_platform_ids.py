"""The forms of ids: Slack's, and Feishu's beside them."""

import pytest

from tools.people.names import PersonMatches, find_people, is_searchable_name
from tools.platform_ids import FILE_ID, MENTION, PERSON_ID
from tools.spec import Person

LI = "ou_2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b02"
FILE = "om_dc13264520392913993dd051dba21dcf/file/file_v3_00ab_12345678-90ab-cdef-1234-567890abcdeg"


@pytest.mark.parametrize("id", ["U02LI", "W012A3CDE", LI, "ou_84aad35d084aa403a838cf73ee18467"])
def test_ids_of_people_are_known_and_can_be_mentioned(id: str) -> None:
    assert id == "U02LI" or PERSON_ID.fullmatch(id)
    found = MENTION.fullmatch(f"<@{id}>")
    assert found and found[1] == id


@pytest.mark.parametrize(
    "text", ["ou_", "ou_ab", "OU_2B2B2B2B", "on_2b2b2b2b2b", "ou_2b2b 2b2b", f"{LI}\n", "oubliette"]
)
def test_other_words_are_no_ids(text: str) -> None:
    assert not PERSON_ID.fullmatch(text)


@pytest.mark.parametrize("id", ["U02LI5678", LI])
def test_an_id_as_a_name_is_certainly_nobody(id: str) -> None:
    """Control: a plain name finds its person, and an id its own."""
    li, poser = Person(id=id, name="李四"), Person(id=id[:-1] + "9", name=id, names=(id,))
    assert find_people([li, poser], id) == PersonMatches((li,), True)
    assert not find_people([poser], id).is_certain and not is_searchable_name(id)
    assert find_people([li, poser], "李四") == find_people([li, poser], f"<@{id}>") == PersonMatches((li,), True)


@pytest.mark.parametrize("id", ["F0123ABCD", FILE, FILE.replace("/file/", "/image/")])
def test_ids_of_files_are_known(id: str) -> None:
    assert FILE_ID.fullmatch(id) and FILE_ID.findall(f"{id},{id}") == [id, id]


@pytest.mark.parametrize(
    "text", [FILE.replace("om_", "oc_"), FILE.replace("/file/", "/exe/"), f"{FILE}/..", "om_1/file/x"]
)
def test_other_addresses_are_no_files(text: str) -> None:
    assert not FILE_ID.fullmatch(text)
