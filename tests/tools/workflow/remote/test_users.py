"""Who a person is in the engine: by table, or by their own id where the engine accepts it; never somebody else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools.workflow.remote.company import LI, PEOPLE, SICK, SOFA, TABLE, WANG, ZHANG, ZHAO, People, World, refused
from tools.workflow.remote.camunda import CamundaApi
from tools.workflow.remote.engine_users import EngineUsers, InvalidUsersError, read_users
from tools.workflow.remote.flowable import FlowableApi


def users(table: dict[str, str], allowed: object = CamundaApi.user_id_pattern) -> EngineUsers:
    return EngineUsers(table, People(), allowed)  # type: ignore[arg-type]


async def test_everybody_is_found_there_and_back() -> None:
    known = users(TABLE)
    names = {p.id: await known.get_engine_user(p.id) for p in PEOPLE}
    assert names == {"U1": "U1", "U2": "lisi", "U3": "U3", "ou_4": "zhaoliu"}
    assert [await known.resolve_person_id(u) for u in names.values()] == [p.id for p in PEOPLE]
    assert await known.resolve_person_id("demo") == "demo", "a user that nobody stands for"


async def test_camunda_needs_a_name_for_ids_that_are_not_letters_and_digits() -> None:
    error = await refused(users({}).get_engine_user(ZHAO.id))
    assert (error.code, error.params) == ("no_engine_user", {"name": "赵六"})
    assert await users({}, FlowableApi.user_id_pattern).get_engine_user(ZHAO.id) == "ou_4"


@pytest.mark.parametrize("bad", ["", "a b", "a/b", "a;drop", "ё"])
async def test_a_table_cannot_bring_in_what_the_engine_does_not_accept(bad: str) -> None:
    for allowed in (CamundaApi.user_id_pattern, FlowableApi.user_id_pattern):
        known = users({"U1": bad}, allowed)
        assert not bad or not await known.find_engine_user("U1")


async def test_nobody_is_somebody_else_s_user() -> None:
    """The table calls 李四 `U3`, which is how 王五 would be called without it."""
    known = users({"U2": "U3"})
    assert await known.get_engine_user(LI.id) == "U3" and not await known.find_engine_user(WANG.id)
    assert (await refused(known.get_engine_user(WANG.id))).code == "no_engine_user"


async def test_a_level_that_falls_to_somebody_without_a_user_starts_nothing(world: World) -> None:
    if world.kind == "flowable":
        world.people.known = [p.model_copy(update={"id": "赵", "roles": p.roles}) if p is ZHAO else p for p in PEOPLE]
    else:
        world.people.known = [p.model_copy(update={"id": "ou_5"}) if p is ZHAO else p for p in PEOPLE]
    assert (await refused(world.start(SOFA, "spend"))).code == "no_engine_user"
    assert not world.face.runner.state.runs


async def test_the_engine_knows_people_by_its_own_names(world: World) -> None:
    await world.start(SICK)
    (run,) = world.face.runner.state.runs.values()
    assert (run.variables["initiator"], run.variables["approver"]) == (ZHANG.id, "lisi")
    assert (await world.engine.get_request("L-0001")).waits_for == (LI.id,)


def test_the_table_is_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "users.toml"
    file.write_text('[users]\n"lisi@example.com" = "lisi"\n"ou_4" = "zhaoliu"\n', encoding="utf-8")
    assert read_users(file) == TABLE
    assert read_users(None) == {}


@pytest.mark.parametrize(
    "text",
    ["[users", "[users]\nU1 = 1", '[users]\nU1 = "a"\nU2 = "a"', 'users = "x"', "\xff"],
)
def test_a_table_that_cannot_be_meant_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "users.toml"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(InvalidUsersError, match=r"users\.toml"):
        read_users(file)
    with pytest.raises(InvalidUsersError):
        read_users(tmp_path / "none.toml")
