"""What is kept of one person: exported whole, erased but for the record, handed over when they leave."""

import asyncio
import json
import os
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from redis.asyncio import Redis

from bot.chat.messages import Message, Place
from bot.core.work_items import MessageReceived
from bot.dev.evaluation.shown_blocks import list_buttons
from bot.ops.backup import stream_key_pages
from bot.ops.personal_data import PersonalData
from bot.queue.keys import Keys, build_stored_item
from bot.storage.journal import Journal
from tests.harness.engines import StartEngine
from tests.harness.forked import fork_process
from tests.harness.office import ADMIN, LI, WANG, ZHANG, Office, office
from tests.harness.programs import Ended, ctrl_c, ended, ran
from tests.tools.workflow.remote.company import world_of
from tests.tools.workflow.remote.proxy import LOGIN, PASSWORD
from tools.workflow.engine.state import Delegation
from tools.workflow.engine.store import RedisStore

TWO_DAYS = "我明天起要请两天病假，肚子疼，请李四审批"
SECRET = "肚子疼"


@pytest.fixture
async def desk(valkey: str) -> AsyncIterator[Office]:
    async with office(valkey) as opened, opened.opened():
        yield opened


async def run_command(desk: Office, folder: Path, *arguments: str, **env: str) -> Ended:
    return await ran(*arguments, cwd=folder, env={"REDIS_URL": desk.redis_url, "LANG": "en_US.UTF-8", **env})


async def read_question(desk: Office, folder: Path, *arguments: str, language: str = "en_US.UTF-8") -> str:
    """What a command asks on a terminal, where it is answered with no."""
    ours, theirs = os.openpty()
    with os.fdopen(ours, "wb", buffering=0) as typed, os.fdopen(theirs) as given:
        typed.write(b"n\n")
        env = {"REDIS_URL": desk.redis_url, "LANG": language}
        end = await ran(*arguments, cwd=folder, env=env, given=given.fileno())
    assert end.code == 1, end
    return end.out


async def export(desk: Office, folder: Path, person: str, **env: str) -> list[dict[str, Any]]:
    end = await run_command(desk, folder, "person", "export", person, **env)
    assert end.code == 0, end
    return [json.loads(line) for line in end.out.splitlines()]


async def list_places(redis: Redis, text: str) -> set[str]:
    """Keys in which the text stands, without their partition; not in requests, which stay."""
    readers = {"string": redis.get, "hash": redis.hgetall, "stream": redis.xrange}
    readers["list"] = lambda key: redis.lrange(key, 0, -1)  # type: ignore[assignment]
    found: set[str] = set()
    async for page in stream_key_pages(redis, Keys()):
        for key in page:
            read = readers.get(str(await redis.type(key)))
            if read and "{wf}" not in key and text in str(await read(key)):
                found.add(key.split("}:")[1])
    return found


async def test_everything_is_exported_nothing_of_others_and_who_is_forgotten_is_in_the_record_only(
    desk: Office, tmp_path: Path
) -> None:
    redis = desk.bot.stores.redis
    await desk.request_leave(ZHANG, TWO_DAYS)
    refused = await run_command(desk, tmp_path, "person", "forget", ZHANG, "--yes")
    assert refused.code == 1 and "L-0001" in refused.all and "Nothing was deleted" in refused.all
    await desk.press(LI, await desk.card(desk.dm(LI)), "approve")
    await desk.answer(WANG, "你好，我是王五")
    await desk.quiet()
    records = await export(desk, tmp_path, ZHANG)
    kinds = Counter(one["kind"] for one in records)
    assert {"run", "card", "history", "journal", "request", "spent"} <= kinds.keys()
    assert SECRET in str(records) and "我是王五" not in str(records)
    assert [one["data"]["id"] for one in await export(desk, tmp_path, LI) if one["kind"] == "request"] == ["L-0001"]
    theirs = f"h:slack:{desk.driver.ws.app.team}:{desk.dm(ZHANG)}"
    assert theirs in await list_places(redis, SECRET), "negative control"
    assert "--yes" in (await run_command(desk, tmp_path, "person", "forget", ZHANG)).all, "it asks"
    forgotten = await run_command(desk, tmp_path, "person", "forget", ZHANG, "--yes")
    assert forgotten.code == 0 and "gone-" in forgotten.out and "request 1" in forgotten.out, forgotten
    left = {one["kind"] for one in await export(desk, tmp_path, ZHANG)}
    assert left <= {"request", "members", "journal"}, left
    left_in = await list_places(redis, SECRET)
    assert theirs not in left_in and all(one.startswith("h:") for one in left_in), "what others were told is theirs"
    assert await list_places(redis, "我是王五"), "others are remembered"
    assert (await run_command(desk, tmp_path, "audit", "verify")).code == 0, "the record still verifies"
    assert await desk.answer(ZHANG, "帮助"), "and they may come back"


async def test_the_summary_of_a_dm_goes_with_its_person_on_every_platform(redis: Redis) -> None:
    """A summary belongs to no run, and Feishu's names of chats do not say that they are direct."""
    keys, team = Keys(), "feishu:t1"
    for chat in (f"{team}:oc_1", f"{team}:oc_2", f"{team}:oc_1:om_1"):
        person = WANG if chat.endswith("oc_2") else ZHANG
        await Journal(redis, keys).append_record(chat, "run.finished", person=person, run=f"run {chat}")
        key = keys.build_key(keys.get_partition(chat), "h", chat)
        for run in ("=", f"run {chat}"):
            await redis.rpush(key, f'5|{run}\t1\t\t{{"role": "user", "content": "{chat}"}}')  # type: ignore[misc]
    await PersonalData(redis, keys, ZHANG).erase_records(delete_no_file)
    left = [page async for page in stream_key_pages(redis, keys)]
    lists = {key: await redis.lrange(key, 0, -1) for page in left for key in page if "}:h:" in key}  # type: ignore[misc]
    assert {key.partition(":h:")[2]: len(entries) for key, entries in lists.items()} == {
        f"{team}:oc_2": 2,
        f"{team}:oc_1:om_1": 1,
    }, "others' direct messages, and what a thread knows of others"


async def delete_no_file(team: str, member: str) -> None:
    raise AssertionError("there is no file")


async def test_ctrl_c_at_a_question_ends_the_command(desk: Office, tmp_path: Path) -> None:
    await desk.answer(ZHANG, "你好")
    await desk.quiet()
    ours, theirs = os.openpty()
    with os.fdopen(ours, "wb", buffering=0), os.fdopen(theirs) as given:
        env = {"REDIS_URL": desk.redis_url, "LANG": "en_US.UTF-8"}
        child = await fork_process("bot", "person", "forget", ZHANG, cwd=tmp_path, env=env, given=given.fileno())
        try:
            assert child.stdout
            await asyncio.wait_for(child.stdout.readuntil(b"[y/N]"), 60)
            ctrl_c(child)
            assert (await ended(child)).code == 130
        finally:
            await child.close()


async def test_what_waits_in_a_lane_is_open_work_and_what_was_given_up_is_erased(desk: Office, tmp_path: Path) -> None:
    """Measured before this was so: *Kept: nothing*, and then the message was handled."""
    assert desk.bot is not None
    await desk.answer(ZHANG, "你好")
    await desk.quiet()
    redis, keys, lane = desk.bot.stores.redis, Keys(), "slack:T:D9"
    place = Place(team="T", channel="D9", direct=True)
    for person in (ZHANG, WANG):
        message = Message(id=f"Ev{person}", place=place, person=person, text=f"{SECRET} {person}", at="1.0")
        body = MessageReceived(message=message).model_dump_json()
        await redis.rpush(keys.build_key(0, "in", lane), build_stored_item(1, message.id, body))  # type: ignore[misc]
        dead = {"lane": lane, "id": message.id, "body": body, "error": "", "tries": "9", "put_ms": "1"}
        await redis.xadd(keys.build_key(0, "dead"), dead)  # type: ignore[arg-type]
    exported = await export(desk, tmp_path, ZHANG)
    assert {"item", "dead letter"} <= {one["kind"] for one in exported} and f"Ev{WANG}" not in str(exported)
    refused = await run_command(desk, tmp_path, "person", "forget", ZHANG, "--yes")
    assert refused.code == 1 and f"item Ev{ZHANG}" in refused.all and "Nothing was deleted" in refused.all
    await redis.delete(keys.build_key(0, "in", lane))
    forgotten = await run_command(desk, tmp_path, "person", "forget", ZHANG, "--yes")
    assert forgotten.code == 0 and "dead letter 1" in forgotten.out, forgotten
    [(_, left)] = await redis.xrange(keys.build_key(0, "dead"))
    assert left["id"] == f"Ev{WANG}", "others' letters stay"


async def test_questions_name_their_people_with_the_id_beside(desk: Office, tmp_path: Path) -> None:
    await desk.answer(ZHANG, "你好")
    await desk.quiet()
    names = {"en_US.UTF-8": ("Zhang San", "Wang Wu"), "zh_CN.UTF-8": ("张三", "王五")}
    for language, (zhang, wang) in names.items():
        forgets = await read_question(desk, tmp_path, "person", "forget", ZHANG, language=language)
        leaves = await read_question(desk, tmp_path, "person", "leave", ZHANG, "--to", WANG, language=language)
        assert f"{zhang} {ZHANG}" in forgets and f"{zhang} {ZHANG}" in leaves and f"{wang} {WANG}" in leaves, leaves
    asked = await read_question(desk, tmp_path, "person", "forget", "U0GONE")
    assert " U0GONE" in asked, "nobody knows a name of theirs: the id alone"


async def test_a_leavers_tasks_and_stand_ins_go_to_somebody_else(desk: Office, tmp_path: Path) -> None:
    store, now = RedisStore(desk.bot.stores.redis), datetime.now(UTC)
    away = Delegation(id="D1", person=WANG, deputy=LI, start=now, end=now + timedelta(days=9))
    await store.save_delegation(away, [])
    await store.save_delegation(away.model_copy(update={"id": "D2", "person": LI, "deputy": ZHANG}), [])
    await desk.request_leave(ZHANG, TWO_DAYS)
    left = await run_command(desk, tmp_path, "person", "leave", LI, "--to", WANG, "--reason", "has left", "--yes")
    assert left.code == 1 and "1 tasks and 0 stand-ins" in left.out, left
    assert f"{WANG} D1 was not handed over" in left.err, "nobody stands in for themselves"
    await desk.card(desk.dm(WANG), "L-0001")
    assert await store.list_members("todo", LI) == () and len(await store.list_members("todo", WANG)) == 1
    assert await store.list_delegations_from(LI) == ()
    await desk.press(WANG, await desk.card(desk.dm(WANG)), "approve")
    await desk.quiet()
    assert (await run_command(desk, tmp_path, "audit", "verify")).code == 0
    again = await run_command(desk, tmp_path, "person", "leave", LI, "--to", ZHANG, "--yes")
    assert again.code == 0 and "0 tasks and 1 stand-ins" in again.out, again
    (moved,) = await store.list_delegations_from(WANG)
    assert (moved.deputy, moved.end) == (ZHANG, away.end)


async def test_a_stand_in_that_cannot_be_handed_over_is_not_lost(desk: Office, tmp_path: Path) -> None:
    """The store refuses the new one: the command's user may not write Wang Wu's list."""
    redis, now = desk.bot.stores.redis, datetime.now(UTC)
    away = Delegation(id="D1", person=ZHANG, deputy=LI, start=now, end=now + timedelta(days=9))
    await RedisStore(redis).save_delegation(away, [])
    written = ("{q*", "{wf}:away:*", f"{{wf}}:deputy:{LI}", "{wf}:timers")
    narrow = ("on", ">word", "+@all", "allchannels", "%R~*", *(f"~cs:{key}" for key in written))
    await redis.execute_command("ACL", "SETUSER", "narrow", *narrow)
    leave, url = ("person", "leave", LI, "--to", WANG, "--yes"), desk.redis_url.replace("//", "//narrow:word@")
    refused = await run_command(desk, tmp_path, *leave, REDIS_URL=url)
    assert refused.code != 0 and [one.id for one in await RedisStore(redis).list_delegations_to(LI)] == ["D1"]
    assert (await run_command(desk, tmp_path, *leave)).code == 0
    (moved,) = await RedisStore(redis).list_delegations_from(ZHANG)
    assert moved.deputy == WANG


async def test_a_hand_over_that_broke_off_between_the_new_stand_in_and_the_old_one_is_ended_by_the_next_call(
    desk: Office, tmp_path: Path
) -> None:
    """The store refuses to delete the old one: the command's user may not write Li Si's list."""
    redis, now = desk.bot.stores.redis, datetime.now(UTC)
    away = Delegation(id="D1", person=ZHANG, deputy=LI, start=now, end=now + timedelta(days=9))
    await RedisStore(redis).save_delegation(away, [])
    written = ("{q*", "{wf}:away:*", f"{{wf}}:deputy:{WANG}", "{wf}:timers")
    narrow = ("reset", "on", ">word", "+@all", "allchannels", "%R~*", *(f"~cs:{key}" for key in written))
    await redis.execute_command("ACL", "SETUSER", "narrow", *narrow)
    leave, url = ("person", "leave", LI, "--to", WANG, "--yes"), desk.redis_url.replace("//", "//narrow:word@")
    refused = await run_command(desk, tmp_path, *leave, REDIS_URL=url)
    assert refused.code != 0 and len(await RedisStore(redis).list_delegations_from(ZHANG)) == 2
    assert (await run_command(desk, tmp_path, *leave)).code == 0
    (moved,) = await RedisStore(redis).list_delegations_from(ZHANG)
    assert (moved.deputy, await RedisStore(redis).list_delegations_to(LI)) == (WANG, ())


@asynccontextmanager
async def another_engine(valkey: str, url: str) -> AsyncIterator[tuple[Office, dict[str, str]]]:
    """An office whose requests Operaton keeps, and the settings of a shell there."""
    async with world_of("operaton", url) as world, office(valkey) as desk:
        at = {"WORKFLOW_ENGINE": "operaton", "ENGINE_URL": world.url, "ENGINE_USER": LOGIN, "ENGINE_PASSWORD": PASSWORD}
        settings: dict[str, Any] = {name.lower(): value for name, value in at.items()}
        async with desk.opened(**{**settings, "engine_password": SecretStr(PASSWORD)}):
            yield desk, at


async def test_who_has_work_open_in_another_engine_is_not_forgotten_and_what_it_has_of_them_is_exported(
    valkey: str, start_engine: StartEngine, tmp_path: Path
) -> None:
    """Measured before this was so: the author of an open request was forgotten, and the approver's press was *gone*."""
    async with another_engine(valkey, start_engine("operaton")) as (desk, at):
        await desk.request_leave(ZHANG, TWO_DAYS)
        card = await desk.card(desk.dm(LI))
        for person in (ZHANG, LI):
            refused = await run_command(desk, tmp_path, "person", "forget", person, "--yes", **at)
            assert refused.code == 1 and "L-0001" in refused.err and "Nothing was deleted" in refused.err, refused
        away = await run_command(
            desk, tmp_path, "person", "forget", WANG, "--yes", **{**at, "ENGINE_URL": "http://127.0.0.1:1"}
        )
        table = tmp_path / "users.toml"
        table.write_text('[users]\n"zhangsan@example.com" = "zhangsan"\n', encoding="utf-8")
        unsure = {**at, "ENGINE_USERS_FILE": str(table)}
        unknown = await run_command(desk, tmp_path, "person", "forget", "U0NOBODY", "--yes", **unsure)
        assert unknown.code == 1 and "ENGINE_USERS_FILE" in unknown.err, "nobody knows who that is in the engine"
        assert away.code == 1 and "I cannot reach the workflow engine" in away.err and "Traceback" not in away.err, away
        await desk.press(LI, card, "approve")
        await desk.until(lambda: "L-0001" in "".join(desk.finals(desk.dm(ZHANG))))
        await desk.quiet()
        for person, why in ((ZHANG, "mine"), (LI, "done")):
            [kept] = [one["data"] for one in await export(desk, tmp_path, person, **at) if one["kind"] == "request"]
            assert kept["id"] == "L-0001" and kept["why"][0].split()[0] == why, kept
            assert SECRET in str(kept["request"]) and [one["command"]["kind"] for one in kept["events"]] == [
                "start", "decide",
            ]  # fmt: skip
        assert not [one for one in await export(desk, tmp_path, WANG, **at) if one["kind"] == "request"]
        forgotten = await run_command(desk, tmp_path, "person", "forget", ZHANG, "--yes", **at)
        assert forgotten.code == 0 and "request 1" in forgotten.out, forgotten


async def test_a_leavers_tasks_in_another_engine_go_to_somebody_else(
    valkey: str, start_engine: StartEngine, tmp_path: Path
) -> None:
    """One by one, or all at once. Measured before this was so: both commands refused to look into that engine."""
    async with another_engine(valkey, start_engine("operaton")) as (desk, at):
        await desk.request_leave(ZHANG, TWO_DAYS)
        card = await desk.card(desk.dm(LI))
        offered = {one["action_id"] for one in list_buttons(card)}
        assert "cs:add_sign" not in offered and "cs:transfer" in offered, "only what the engine can do"
        todo = await desk.bot.resources.engine.list_todo_tasks(LI, datetime.now(UTC))
        task = todo.tasks[0].task.id
        given = await run_command(desk, tmp_path, "processes", "assign", task, WANG, "--yes", **at)
        assert given.code == 0 and f"I gave task {task} to {WANG}" in given.out, given
        await desk.card(desk.dm(WANG), "L-0001")
        left = await run_command(desk, tmp_path, "person", "leave", WANG, "--to", ADMIN, "--yes", **at)
        assert left.code == 0 and "1 tasks and 0 stand-ins" in left.out, left
        await desk.press(ADMIN, await desk.card(desk.dm(ADMIN), "L-0001"), "approve")
        await desk.until(lambda: "L-0001" in "".join(desk.finals(desk.dm(ZHANG))))
        await desk.quiet()
        assert "撤回 L-0001" not in desk.said(desk.dm(ZHANG)), "nor does it withdraw what is approved"
