"""The people of a Feishu tenant, with managers, departments and leavers."""

from typing import Any

import pytest
from redis.asyncio import Redis

from bot.core.errors import ChatError
from bot.people.directory import PlatformDirectory
from bot.people.redis_member_store import RedisMemberStore
from bot.platforms.feishu.directory import FeishuMembers
from bot.queue.keys import Keys
from tests.platforms.feishu.ears_desk import BOT, LI, SALES, ZHANG, Ears, build_user
from tests.platforms.feishu.message_server import TENANT, check_request


async def test_a_person_has_a_manager_and_a_department_alone_and_on_the_list(ears: Ears) -> None:
    caller = await ears.directory.find_caller(ZHANG)
    people = {one.id: one for one in await ears.directory.list_people()}
    zhang = people[ZHANG]
    assert caller is not None and caller.person == zhang == ears.directory.find_known_person(ZHANG)
    assert (zhang.name, zhang.names, zhang.email) == ("张三", ("San Zhang",), "zhang@example.com")
    assert (zhang.manager, zhang.department, zhang.active) == (LI, "销售部", True)
    assert (zhang.language, zhang.timezone) == ("zh", "Asia/Shanghai")
    assert people[LI].manager is None and people[LI].department == ""
    assert ears.feishu.count_asked(f"users/{ZHANG}") == 1


async def test_a_leader_without_an_address_is_one_whenever_they_join_and_as_long_as_they_stay(ears: Ears) -> None:
    """Their report was read before them, and has not changed since."""
    li = ears.feishu.users.pop(LI) | {"email": ""}

    async def hear_of(**said: Any) -> str | None:
        ears.feishu.users[LI] = li | said
        ears.directory.note_changed_person(LI)
        await ears.directory.catch_up()
        found = await ears.directory.find_person(ZHANG)
        return found.manager if found else "nobody"

    assert [one.manager for one in await ears.directory.list_people()] == [None]
    assert await hear_of() == LI
    assert await hear_of(status={**li["status"], "is_resigned": True}) is None
    assert await hear_of() == LI, "back again"


async def test_pages_and_departments_are_read_whole(ears: Ears) -> None:
    ears.feishu.page_size = 2
    ears.feishu.departments |= {"od-empty": "空", "od-more": "更多"}
    for n in range(5):
        id = f"ou_{n:032x}"
        ears.feishu.users[id] = build_user(id, f"Person {n}", department_ids=["od-more", SALES])
    assert len(await ears.directory.list_people()) == 7
    asked = [query["department_id"] for path, query in ears.feishu.asked if path.endswith("find_by_department")]
    assert asked == ["0", SALES, SALES, SALES, "od-empty", "od-more", "od-more", "od-more"]


async def test_another_process_goes_on_where_one_has_stopped(ears: Ears, redis: Redis, keys: Keys) -> None:
    ears.feishu.departments["od-more"] = "更多"
    first, second = (
        PlatformDirectory(FeishuMembers(ears.client), {}, store=RedisMemberStore(redis, keys, TENANT)) for _ in range(2)
    )
    ears.feishu.pages["contact/v3/users/find_by_department"] = 40003
    with pytest.raises(ChatError):
        await first.list_people()
    del ears.feishu.pages["contact/v3/users/find_by_department"]
    assert len(await second.list_people()) == 2
    before = len(ears.feishu.asked)
    assert {one.id for one in await first.list_people()} == {ZHANG, LI} and len(ears.feishu.asked) == before


LEFT = [{"is_resigned": True}, {"is_frozen": True}, {"is_exited": True}, {"is_activated": False}, {"is_unjoin": True}]


async def test_leavers_are_nobody_to_ask_and_no_callers(ears: Ears, subtests: pytest.Subtests) -> None:
    """A status that Feishu does not tell makes nobody a member either."""
    ears.directory._fresh_s, zhang = 0, ears.feishu.users[ZHANG]
    untold = {name: value for name, value in zhang.items() if name != "status"}
    for left in (*({"status": zhang["status"] | bars} for bars in LEFT), {"status": None}, {}):
        with subtests.test(left=left):
            ears.feishu.users[ZHANG] = zhang
            await ears.directory.refresh_people([ZHANG])
            assert await ears.directory.find_caller(ZHANG) is not None, "control"
            ears.feishu.users[ZHANG] = untold | left
            await ears.directory.refresh_people([ZHANG])
            assert await ears.directory.find_caller(ZHANG) is None and not await ears.directory.is_inside(ZHANG)
            found = await ears.directory.find_person(ZHANG)
            assert found is not None and found.name == "张三", "but who pressed then is still named"
            assert [one.id for one in await ears.directory.list_people()] == [LI]


async def test_strangers_and_bots_are_nobody(ears: Ears) -> None:
    for id in ("ou_9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f99", BOT):
        assert await ears.directory.find_caller(id) is None and not await ears.directory.is_inside(id)
    asked = len(ears.feishu.asked)
    for id in ("", "U01ZHANG", "on_2a2a2a2a", "7", "ou_../../users", "ou_2a2a2a2a?x=1", "张三"):
        assert await ears.directory.find_person(id) is None
    assert len(ears.feishu.asked) == asked, "no call is made for what is no id"
    ears.feishu.pages[f"contact/v3/users/{ZHANG}"] = {"user": ears.feishu.users[LI]}
    assert await ears.directory.find_person(ZHANG) is None, "an answer about somebody else is about nobody"


async def test_an_error_of_feishu_forgets_nobody(ears: Ears) -> None:
    await ears.directory.find_person(ZHANG)
    ears.feishu.pages[f"contact/v3/users/{ZHANG}"] = 40003
    ears.directory._fresh_s = 0
    with pytest.raises(ChatError):
        await ears.directory.refresh_people([ZHANG])
    assert ears.directory.find_known_person(ZHANG) is not None


async def test_names_are_visible_addresses_the_companys_and_administrators_run_the_tenant(ears: Ears) -> None:
    told = {"name": "李\u200b四 ", "en_name": "Si\u00adLi", "email": "", "enterprise_email": "li@corp.example"}
    ears.feishu.users[LI] |= {**told, "is_tenant_manager": True}
    li, zhang = [await ears.directory.find_person(one) for one in (LI, ZHANG)]
    assert li is not None and (li.name, li.names, li.email) == ("李四", ("SiLi",), "li@corp.example")
    assert li.runs_workspace and zhang is not None and not zhang.runs_workspace
    found = {"user_list": [{"email": "nobody@example.com"}, {"user_id": LI, "email": "li@example.com"}]}
    ears.feishu.pages["contact/v3/users/batch_get_id"] = found
    assert await FeishuMembers(ears.client).find_member_by_email("li@example.com") == {"id": LI}


@pytest.mark.parametrize(
    ("method", "query", "body"),
    [("GET", {"user_id": "7"}, {}), ("POST", {}, {}), ("GET", {}, {"email": "li@example.com"})],
)
def test_a_request_that_the_sdk_does_not_know_is_noticed(method: str, query: Any, body: Any) -> None:
    """Negative control of what the small Feishu holds every request against."""
    assert check_request("GET", f"contact/v3/users/{LI}", {"user_id_type": "open_id"}, {}) == "person"
    with pytest.raises(AssertionError):
        check_request(method, f"contact/v3/users/{LI}", query, body)
