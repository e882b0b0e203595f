"""The people of a Feishu tenant, with managers, departments and leavers."""

from typing import Any

import pytest
from redis.asyncio import Redis

from bot.chat.feishu.directory import FeishuMembers
from bot.core.errors import ChatError
from bot.people.directory import PlatformDirectory
from bot.people.directory_file import DirectoryEntry
from bot.people.redis_member_store import RedisMemberStore
from bot.queue.keys import Keys
from tests.chat.feishu.ears_desk import BOT, LI, SALES, TENANT, ZHANG, Ears, build_user
from tests.chat.feishu.message_server import check_request


async def test_a_person_has_a_manager_and_a_department(ears: Ears) -> None:
    people = {one.id: one for one in await ears.directory.list_people()}
    zhang = people[ZHANG]
    assert (zhang.name, zhang.names, zhang.email) == ("张三", ("San Zhang",), "zhang@example.com")
    assert (zhang.manager, zhang.department, zhang.active) == (LI, "销售部", True)
    assert (zhang.language, zhang.timezone) == ("zh", "Asia/Shanghai")
    assert people[LI].manager is None and people[LI].department == ""


async def test_a_caller_is_looked_up_once_and_known_then(ears: Ears) -> None:
    assert ears.directory.find_known_person(ZHANG) is None
    caller = await ears.directory.find_caller(ZHANG)
    assert caller is not None and caller.person.department == "销售部"
    assert await ears.directory.find_caller(ZHANG) is not None
    assert ears.directory.find_known_person(ZHANG) == caller.person
    assert ears.feishu.count_asked(f"users/{ZHANG}") == 1


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


@pytest.mark.parametrize("status", LEFT)
async def test_leavers_are_nobody_to_ask_and_no_callers(ears: Ears, status: dict[str, bool]) -> None:
    assert await ears.directory.find_caller(ZHANG) is not None, "control"
    ears.feishu.users[ZHANG]["status"] |= status
    ears.directory._fresh_s = 0
    await ears.directory.refresh_people([ZHANG])
    assert await ears.directory.find_caller(ZHANG) is None and not await ears.directory.is_inside(ZHANG)
    found = await ears.directory.find_person(ZHANG)
    assert found is not None and found.name == "张三", "but who pressed then is still named"
    assert [one.id for one in await ears.directory.list_people()] == [LI]


async def test_a_status_that_feishu_does_not_tell_makes_nobody_a_member(ears: Ears) -> None:
    del ears.feishu.users[ZHANG]["status"]
    assert await ears.directory.find_caller(ZHANG) is None


async def test_strangers_and_bots_are_nobody(ears: Ears) -> None:
    for id in ("ou_9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f99", BOT):
        assert await ears.directory.find_caller(id) is None and not await ears.directory.is_inside(id)
    asked = len(ears.feishu.asked)
    for id in ("", "U01ZHANG", "on_2a2a2a2a", "7", "ou_../../users", "ou_2a2a2a2a?x=1", "张三"):
        assert await ears.directory.find_person(id) is None
    assert len(ears.feishu.asked) == asked, "no call is made for what is no id"


async def test_an_answer_about_somebody_else_is_about_nobody(ears: Ears) -> None:
    ears.feishu.pages[f"contact/v3/users/{ZHANG}"] = {"user": ears.feishu.users[LI]}
    assert await ears.directory.find_person(ZHANG) is None


async def test_an_error_of_feishu_forgets_nobody(ears: Ears) -> None:
    await ears.directory.find_person(ZHANG)
    ears.feishu.pages[f"contact/v3/users/{ZHANG}"] = 40003
    ears.directory._fresh_s = 0
    with pytest.raises(ChatError):
        await ears.directory.refresh_people([ZHANG])
    assert ears.directory.find_known_person(ZHANG) is not None


async def test_the_directory_file_goes_first(ears: Ears) -> None:
    facts = {"zhang@example.com": DirectoryEntry(email="zhang@example.com", manager="x@example.com", title="总监")}
    directory = PlatformDirectory(FeishuMembers(ears.client), facts)
    ears.feishu.users |= {(id := f"ou_{7:032x}"): build_user(id, "X", "", enterprise_email="x@example.com")}
    await directory.list_people()
    zhang = await directory.find_person(ZHANG)
    assert zhang is not None and (zhang.manager, zhang.title, zhang.is_title_official) == (id, "总监", True)


async def test_names_that_look_alike_are_equal(ears: Ears) -> None:
    ears.feishu.users[LI] |= {"name": "李\u200b四 ", "en_name": "Si\u00adLi"}
    found = await ears.directory.find_person(LI)
    assert found is not None and (found.name, found.names) == ("李四", ("SiLi",))


async def test_an_administrator_of_the_tenant_runs_it(ears: Ears) -> None:
    ears.feishu.users[LI]["is_tenant_manager"] = True
    found = [await ears.directory.find_person(one) for one in (LI, ZHANG)]
    assert [one is not None and one.runs_workspace for one in found] == [True, False]


async def test_a_person_is_found_by_their_address(ears: Ears) -> None:
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
