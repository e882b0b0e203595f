"""Who a person is in the engine: by table, or by their own id where the engine accepts it; never somebody else."""

from pathlib import Path

import pytest

from tests.harness.corpus import corpus
from tests.tools.workflow.remote.company import LI, PEOPLE, SICK, SOFA, TABLE, WANG, ZHANG, ZHAO, People, World, refused
from tools.spec import Person
from tools.workflow.remote.engine_users import EngineUsers, InvalidUsersError, read_users


def users(table: dict[str, str]) -> EngineUsers:
    return EngineUsers(table, People(list(PEOPLE)))


async def test_everybody_is_found_there_and_back_and_nobody_is_somebody_else_s_user() -> None:
    known = users(TABLE)
    names = {p.id: await known.get_engine_user(p.id) for p in PEOPLE}
    assert names == {"U1": "U1", "U2": "lisi", "U3": "U3", "ou_4": "zhaoliu"}
    assert [await known.resolve_person_id(u) for u in names.values()] == [p.id for p in PEOPLE]
    assert await known.resolve_person_id("demo") == "demo", "a user that nobody stands for"
    taken = users({"U2": "U3"})  # as 王五 would be called without the table
    assert await taken.get_engine_user(LI.id) == "U3" and not await taken.find_engine_user(WANG.id)
    assert (await refused(taken.get_engine_user(WANG.id))).code == "no_engine_user"
    assert await users({}).get_engine_user(ZHAO.id) == "ou_4", "any text may be an assignee"


class ListsWhoIsHere(People):
    """As Slack's directory: who has left is found by id, and is on no list."""

    async def list_people(self) -> tuple[Person, ...]:
        return tuple(one for one in self.known if one.active)


async def test_who_has_left_keeps_their_user() -> None:
    left = LI.model_copy(update={"active": False})
    known = EngineUsers(TABLE, ListsWhoIsHere([ZHANG, left, WANG]))
    assert await known.get_engine_user(LI.id) == "lisi" and await known.resolve_person_id("lisi") == LI.id
    heir = ZHANG.model_copy(update={"email": LI.email})
    taken = EngineUsers(TABLE, ListsWhoIsHere([heir, left]))
    assert not await taken.find_engine_user(LI.id), "their address is somebody else's now"
    assert await taken.resolve_person_id("lisi") == heir.id


async def test_the_engine_knows_people_by_its_own_names_and_who_has_none_there_is_asked_for_nothing(
    world: World,
) -> None:
    world.people.known = [p.model_copy(update={"id": "lisi"}) if p is ZHAO else p for p in PEOPLE]
    assert (await refused(world.start(SOFA, "spend"))).code == "no_engine_user" and not await world.count_instances()
    await world.start(SICK)
    variables = await world.load_variables("L-0001")
    assert (variables["initiator"], variables["approver"]) == (ZHANG.id, "lisi")
    assert (await world.engine.get_request("L-0001")).waits_for == (LI.id,)


@corpus(
    "text",
    ['[users]\n"lisi@example.com" = "lisi"\n"ou_4" = "zhaoliu"\n', "[users", "[users]\nU1 = 1",
     '[users]\nU1 = "a"\nU2 = "a"', 'users = "x"', "\xff"],
)  # fmt: skip
def test_the_table_is_read_from_a_file_and_refused_where_it_cannot_be_meant(tmp_path: Path, text: str) -> None:
    file = tmp_path / "users.toml"
    file.write_bytes(text.encode("latin-1"))
    if "ou_4" in text:
        assert (read_users(file), read_users(None)) == (TABLE, {})
    else:
        with pytest.raises(InvalidUsersError, match=r"users\.toml"):
            read_users(file)
    with pytest.raises(InvalidUsersError):
        read_users(tmp_path / "none.toml")
