"""`countersign audit` as a program of its own."""

import asyncio
import csv
import io
import json
import re
import zlib
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from redis.asyncio import Redis

from bot.ops.cli.console import sanitize_for_terminal
from tests.harness.office import APP_TOKEN, BOT_TOKEN, LI, ZHANG, office
from tests.harness.programs import Ended, ran
from tests.tools.company import CHOICE, NOW, PEOPLE, SHORT, SICK
from tests.tools.office import office as company
from tests.tools.workflow.history import lived
from tools.workflow.engine.commands import CommentCommand
from tools.workflow.engine.store import RedisStore

ALL = ("--since", "2026-11-01")
FORMULA = '=HYPERLINK("http://evil")'


@pytest.fixture
async def store(redis: Redis) -> RedisStore:
    """Five requests, and one by somebody whose id is a formula and drives terminals."""
    store = RedisStore(redis)
    await lived(store)
    odd = PEOPLE[0].model_copy(update={"id": FORMULA + "\x1b[2J"})
    there = company(store)
    there.people.known.append(odd)
    await there.engine.start_request("leave", SHORT, odd.id, "odd", NOW)
    return store


async def audit(valkey: str, folder: Path, *arguments: str, **env: str) -> Ended:
    return await ran("audit", *arguments, cwd=folder, env={"REDIS_URL": valkey, **env})


# Telling


async def test_csv_and_json_tell_every_transition_with_the_same_facts(
    store: RedisStore, valkey: str, tmp_path: Path
) -> None:
    as_csv, as_json, plain = ends = await asyncio.gather(
        *(audit(valkey, tmp_path, *ALL, *form) for form in (("--csv",), ("--json",), ()))
    )
    assert not [end for end in ends if "\x1b" in end.out or end.code], plain
    rows, told = list(csv.DictReader(io.StringIO(as_csv.out))), [json.loads(line) for line in as_json.out.splitlines()]
    assert len(rows) == len(told) > 20
    for row, one in zip(rows, told, strict=True):
        assert {name: value.removeprefix("'") for name, value in row.items()} == {
            name: sanitize_for_terminal(str(value)) for name, value in one.items()
        }
    columns = "at request n actor on_behalf_of via command task node flow condition arguments previous hash"
    assert set(columns.split()) <= set(rows[0])
    (by_rule,) = [
        row for row in rows if row["node"] == "short_leave" and row["request"] == "L-0002" and row["via"] == "rule"
    ]
    assert (by_rule["actor"], by_rule["node"]) == ("system:rule", "short_leave")
    cells = [cell for row in csv.reader(io.StringIO(as_csv.out)) for cell in row]
    assert any(cell.startswith("'=HYPERLINK") for cell in cells), "no cell is a formula"
    assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@"))]


async def test_a_story_for_people_in_their_language(store: RedisStore, valkey: str, tmp_path: Path) -> None:
    narrow = {"COLUMNS": "80", "TZ": "Asia/Shanghai"}
    en, zh, shown, all_of_them = await asyncio.gather(
        audit(valkey, tmp_path, "--request", "e-0001", **narrow),
        audit(valkey, tmp_path, "--request", "E-0001", LANG="zh_CN.UTF-8", **narrow),
        ran("show", "e-0001-2", cwd=tmp_path, env={"REDIS_URL": valkey, **narrow}),
        audit(valkey, tmp_path, *ALL, **narrow),
    )
    at = NOW.astimezone(ZoneInfo("Asia/Shanghai")).strftime("%Y-%m-%d %H:%M:%S+0800")
    assert [line.strip() for line in en.out.splitlines() if line.strip()] == [
        "E-0001  expense  Local transport, 5000.00 CNY",
        f"{at}  ✅ submitted by U1",
        f"{at}  💬 U1 commented “请尽快”",
        f"{at}  📨 U1 copied U5",
        f"{at}  🔁 U2 transferred it to U3 “请看”",
        f"{at}  ✅ U5 for U3 approved",
        f"{at}  ✅ U4 approved",
        "🏁 approved",
    ], en
    assert "✅ U5（代U3）同意" in zh.out and "🏁 已通过" in zh.out, zh
    assert shown == en, "a task's number leads to its request, and a request's is one of `show`"
    for words in ("passed by rule", "the process copied", "moved it to another version", "took too long, now with"):
        assert words in all_of_them.out, (words, all_of_them)
    assert not re.search(r"short_leave|to_approval|\$\{|→", en.out + all_of_them.out), "nodes are for programs"


async def test_a_story_warns_of_an_approver_whom_no_rule_names(redis: Redis, valkey: str, tmp_path: Path) -> None:
    there = company(RedisStore(redis), policy=CHOICE)
    await there.engine.start_request("leave", {**SICK, "approver": "U5"}, "U1", "a", NOW)
    end = await audit(valkey, tmp_path, *ALL)
    assert "⚠ approver not named by the rules: approver=U5 rules=U2" in " ".join(end.out.split()), end
    assert "⏳ U5 (Approval)" in end.out


async def test_a_story_says_what_came_before_it_and_names_what_it_cannot_tell(
    store: RedisStore, redis: Redis, valkey: str, tmp_path: Path
) -> None:
    comment = CommentCommand(request="L-0002", actor="U1", text="谢谢")
    await company(store).engine.execute_command(comment, "today", datetime.now(UTC))
    late, day, none = await asyncio.gather(
        audit(valkey, tmp_path, "--since", "1h"),
        audit(valkey, tmp_path, "--since", "1h", "--json"),
        audit(valkey, tmp_path, "--since", "2126-01-01"),
    )
    assert "(1 earlier step)" in late.out and "💬 U1 commented “谢谢”" in late.out and "submitted" not in late.out
    rows = [json.loads(line) for line in day.out.splitlines()]
    assert [row["command"] for row in rows if row["request"] == "L-0002"] == ["comment"], "only what is recent"
    assert none.code == 0 and "There are no records" in none.out
    await redis.lset("cs:{wf}:events:L-0001", 1, "{}")  # type: ignore[misc]
    odd = await audit(valkey, tmp_path, "--request", "L-0001", "--json")
    assert odd.code == 1 and len(odd.out.splitlines()) > 2, "the rest is told"
    assert "L-0001 1" in odd.err and "audit verify" in odd.err
    await redis.delete("cs:{wf}:request:L-0001")
    end = await audit(valkey, tmp_path, *ALL)
    assert end.code == 1 and "L-0001" not in end.out and "L-0002" in end.out, "the rest is told"
    assert "L-0001" in end.err and "audit verify" in end.err


async def test_names_where_slack_answers_and_ids_in_any_case(redis: Redis, valkey: str, tmp_path: Path) -> None:
    there = company(RedisStore(redis))
    zhang, li = (one.model_copy(update={"id": id}) for one, id in zip(PEOPLE, (ZHANG, LI), strict=False))
    there.people.known[:] = [zhang.model_copy(update={"manager": LI}), li]
    await there.engine.start_request("leave", {**SICK, "approver": LI}, ZHANG, "a", NOW)
    env = {"SLACK_BOT_TOKEN": BOT_TOKEN, "SLACK_APP_TOKEN": APP_TOKEN}
    async with office(valkey) as opened:
        named, away = await asyncio.gather(
            audit(valkey, tmp_path, *ALL, "--json", **env, SLACK_API_URL=f"{opened.address}/api/"),
            audit(valkey, tmp_path, *ALL, "--json", **env, SLACK_API_URL="http://127.0.0.1:1/api/"),
        )
    first = [json.loads(end.out.splitlines()[0]) for end in (named, away)]
    assert [(one["actor"], one["actor_name"]) for one in first] == [(ZHANG, "Zhang San"), (ZHANG, "")]
    assert not named.err and "the chat platform cannot be reached" in away.err and away.code == 0


# Verifying


async def test_an_untouched_store_is_whole_and_what_is_wrong_is_a_line_each_and_the_exit_code(
    store: RedisStore, redis: Redis, valkey: str, tmp_path: Path
) -> None:
    async def verify(request: str) -> list[Ended]:
        asked = (("verify",), {}), (("verify",), {"LC_ALL": "zh_CN.UTF-8"}), (("verify", "--request", request), {})
        return await asyncio.gather(*(audit(valkey, tmp_path, *words, **env) for words, env in asked))

    everything, zh, one = ends = await verify("l-0001")
    assert [end.code for end in ends] == [0, 0, 0], ends
    assert "requests: 7" in everything.out and "requests: 1, events: 3" in one.out and "没有改动" in zh.out
    event = (await store.load_events("L-0001"))[1].replace("approve", "reject")
    await redis.lset("cs:{wf}:events:L-0001", 1, zlib.compress(event.encode()))  # type: ignore[misc]
    await redis.delete("cs:{wf}:request:L-0002", "cs:{wf}:events:L-0002")
    en, zh, _ = ends = await verify("L-0003")
    assert [end.code for end in ends] == [1, 1, 0], ends
    altered, gone = en.out.splitlines()
    assert altered.startswith("L-0001: event 1 was altered") and gone.startswith("L-0002: this number was issued")
    assert "problems found: 2" in en.err and "L-0001：第 1 条记录被改过" in zh.out


async def test_heads_kept_elsewhere_find_a_history_that_was_rewritten_and_what_is_gone_is_named(
    store: RedisStore, redis: Redis, valkey: str, tmp_path: Path
) -> None:
    exported = await audit(valkey, tmp_path, "heads")
    assert exported.code == 0 and len(exported.out.splitlines()) == 8
    assert exported.out.splitlines()[-1].startswith("# 7 heads, sha256 ")
    (tmp_path / "heads.txt").write_text(exported.out)
    (tmp_path / "old.txt").write_text("".join(exported.out.splitlines(keepends=True)[:-1]))
    against = ("verify", "--against", "heads.txt")
    new, old = await asyncio.gather(
        audit(valkey, tmp_path, *against), audit(valkey, tmp_path, "verify", "--against", "old.txt")
    )
    assert (
        new.code == old.code == 0 and "heads exported earlier: 7" in new.out and "heads exported earlier: 7" in old.out
    )
    assert "no closing line" in old.err and "no closing line" not in new.err, "of an older version"
    await redis.delete("cs:{wf}:request:E-0001", "cs:{wf}:events:E-0001")
    await redis.zrem("cs:{wf}:changed", "E-0001")
    await redis.hdel("cs:{wf}:numbers", "E")  # type: ignore[misc]
    alone, both = await asyncio.gather(audit(valkey, tmp_path, "verify"), audit(valkey, tmp_path, *against))
    assert alone.code == 0, "the limit that the help names"
    assert both.code == 1 and len(both.out.splitlines()) == 1 and "E-0001: event 5 as exported earlier" in both.out
    await redis.delete("cs:{wf}:request:L-0002", "cs:{wf}:events:L-0002")
    en, zh = await asyncio.gather(
        audit(valkey, tmp_path, "heads"), audit(valkey, tmp_path, "heads", LANG="zh_CN.UTF-8")
    )
    assert en.code == zh.code == 1 and len(en.out.splitlines()) == 6, "what is there is printed"
    assert "L-0002" in en.err and "audit verify" in en.err and "找不到申请" in zh.err


# What is asked in the wrong way


async def test_odd_questions_are_one_clear_answer(store: RedisStore, valkey: str, tmp_path: Path) -> None:
    (tmp_path / "odd.txt").write_text("L-0001 0 abc\n")
    (tmp_path / "odd.bin").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "empty.txt").write_text("\n")
    head = f"L-0001 2 {'0' * 64}\n"
    (tmp_path / "cut.txt").write_text(head + f"# 7 heads, sha256 {'0' * 64}\n")
    asked = {
        ("--since", "yesterday"): "2026-11-01",
        ("--since", "9d9"): "2026-11-01",
        ("--since", "999999d"): "2026-11-01",
        ("--request", "L-0099"): "L-0099",
        ("verify", "--request", "L-0099"): "L-0099",
        ("verify", "--request", "nonsense"): "NONSENSE",
        ("verify", "--against", "odd.txt"): "line 1",
        ("verify", "--against", "odd.bin"): "--against",
        ("verify", "--against", "nowhere.txt"): "nowhere.txt",
        ("verify", "--against", "empty.txt"): "no heads",
        ("verify", "--against", "cut.txt"): "line 2",
        ("heads", "--request", "L-0099"): "L-0099",
    }
    ends = await asyncio.gather(*(audit(valkey, tmp_path, *one) for one in asked))
    for (question, answer), end in zip(asked.items(), ends, strict=True):
        assert end.code and answer in end.err and "Traceback" not in end.all, (question, end)
