"""The commands, as programs of their own against an office at work."""

import asyncio
import json
import re
import signal
from collections.abc import AsyncIterator
from itertools import product
from pathlib import Path

import pytest
from rich.cells import cell_len

from bot.agent.model import ModelReply, RawToolCall
from bot.core.i18n import load_sentences
from bot.ops.cli.record_lines import cut_to_cells, format_record_line
from bot.ops.processes import ProcessStore
from bot.queue.keys import Keys
from bot.queue.lanes import LaneItem
from bot.queue.writes import apply_writes
from bot.storage.dead_letters import DeadLetterStore
from bot.storage.journal import Journal, JournalRecord
from tests.harness.office import APP_TOKEN, BOT_TOKEN, DEMO, LI, WANG, ZHANG, Office, office
from tests.harness.programs import Ended, ended, printed, ran, started
from tests.harness.scripted_model import ScriptedModel
from tests.stories.endpoint import called as tool_call
from tests.stories.endpoint import endpoint, said
from tests.stories.script import expense

EVIL = "\x1b[2J\x1b]0;owned\x07 \x9b31m \u202e"


@pytest.fixture
async def busy(valkey: str) -> AsyncIterator[Office]:
    """Zhang San's request waits for Li Si; Wang Wu has asked for the list of people."""
    look = ModelReply(calls=(RawToolCall("call_0", "list_people", json.dumps({"reason": "看看" + EVIL, "name": ""})),))
    model = ScriptedModel(
        [expense(reason="去上海[red]开会"), ModelReply(text="已发起。"), look, ModelReply(text="Here.")]
    )
    async with office(valkey) as opened, opened.opened(model=model):
        await opened.says(ZHANG, "报销 500 元" + EVIL)
        await opened.press(ZHANG, await opened.card(opened.dm(ZHANG)), "confirm")
        await opened.card(opened.dm(LI), "E-0001")
        await opened.until(lambda: opened.finals(opened.dm(ZHANG)))
        await opened.answer(WANG, "who is here")
        await opened.quiet()
        yield opened


@pytest.fixture
async def empty(valkey: str) -> AsyncIterator[Office]:
    async with office(valkey) as opened:
        yield opened


async def command(office: Office, folder: Path, *arguments: str, **env: str) -> Ended:
    return await ran(*arguments, cwd=folder, env={**office.shell, **env})


def lines(end: Ended) -> list[dict[str, object]]:
    assert end.code == 0, end
    return [json.loads(line) for line in end.out.splitlines()]


async def run_of(office: Office, person: str) -> str:
    return next(record.run for record in await office.journal(person=person) if record.run)


async def test_tail_tells_everything_in_order_and_filters(busy: Office, tmp_path: Path) -> None:
    run, card = await run_of(busy, WANG), (await busy.approvals.list_open_approvals())[0].id
    filters = (
        (), ("--run", run), ("--person", ZHANG), ("--kind", "effect.done"), ("--kind", "effect.done", "--kind", "step"),
        ("--channel", busy.dm(WANG)),
    )  # fmt: skip
    plain, *ends = await asyncio.gather(
        command(busy, tmp_path, "tail"), *(command(busy, tmp_path, "tail", "--json", *one) for one in filters)
    )
    told, one_run, *others = map(lines, ends)
    assert [one["at_ms"] for one in told] == sorted(one["at_ms"] for one in told)  # type: ignore[type-var]
    assert len(told) == len(plain.out.splitlines()) == len(await busy.journal())
    kinds = [one["kind"] for one in told]
    assert {"step", "approval.requested", "effect.started", "effect.done", "run.finished"} <= set(kinds)
    assert kinds.index("effect.started") < kinds.index("effect.done")
    assert any(one.get("approval") == card for one in told)
    assert {one["run"] for one in one_run} == {run} and len(one_run) < len(told)
    found = [
        {one[name] for one in some} for name, some in zip(("person", "kind", "kind", "channel"), others, strict=True)
    ]
    assert found == [{ZHANG}, {"effect.done"}, {"effect.done", "step"}, {busy.dm(WANG)}] and len(others[1]) == 1


async def test_tail_follows_across_processes_until_ctrl_c_or_until_nobody_reads(busy: Office, tmp_path: Path) -> None:
    async with started("tail", "-f", "--kind", "command", cwd=tmp_path, env=busy.shell) as child:
        redis = busy.bot.stores.redis  # type: ignore[union-attr]
        assert "E-0001" in await busy.answer(LI, "待办")
        assert LI in await printed(child, "tasks")
        await Journal(redis, Keys()).append_record("lane", "command", person=WANG, text="by another process")
        await printed(child, "by another process")
        child.send_signal(signal.SIGINT)
        end = await ended(child)
    assert end.code == 130 and "Traceback" not in end.err
    async with started("tail", "-f", cwd=tmp_path, env=busy.shell) as child:
        await printed(child, "\n")
        child.stdout._transport.close()  # type: ignore[union-attr]
        for _ in range(5):
            await busy.answer(LI, "待办")
        assert "Traceback" not in (await asyncio.wait_for(child.stderr.read(), 20)).decode()


async def test_show_prints_a_whole_run_and_nothing_in_it_drives_the_terminal(busy: Office, tmp_path: Path) -> None:
    runs = [await run_of(busy, person) for person in (ZHANG, WANG)]
    shown, other = await asyncio.gather(*(command(busy, tmp_path, "show", run) for run in runs))
    assert shown.code == 0, shown
    head = shown.out.splitlines()[0]
    assert runs[0] in head and "done" in head and ZHANG in head
    for word in ("报销 500 元", "start_process", "succeeded", "照您说的做", '"amount"', "card: A", "effect.done",
                 "tokens, 0 cached"):  # fmt: skip
        assert word in shown.out, word
    assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(shown.out + other.out)


async def test_an_unknown_run_and_an_odd_age_are_one_clear_line_and_nothing_pending_is_said(
    valkey: str, tmp_path: Path
) -> None:
    runs = ("R00nothing12345", "nonsense", "R99xxxxxxxxxxxx", "../../etc")
    asked = {("show", run): f"there is no run {run}; `countersign tail` shows the ids" for run in runs}
    asked |= {("usage", "--since", "yesterday"): "7d", ("export", "--since", "yesterday"): "yesterday"}
    ends = await asyncio.gather(*(ran(*one, cwd=tmp_path, env={"REDIS_URL": valkey}) for one in asked))
    for (question, answer), end in zip(asked.items(), ends, strict=True):
        assert end.code and answer in end.err and "Traceback" not in end.all, (question, end)
        assert question[0] != "show" or (end.code, end.out, end.err.strip()) == (1, "", f"countersign: {answer}")
    empty = ("pending",), ("pending", "--json"), ("tail",)
    ends = await asyncio.gather(*(ran(*one, cwd=tmp_path, env={"REDIS_URL": valkey}) for one in empty))
    assert [end.code for end in ends] == [0, 0, 0]
    assert "Nothing is waiting for anybody" in ends[0].out and not ends[1].out and not ends[2].out


ECHO = tool_call(("echo", '{"word": "hello"}'))


def list_failures(end: Ended) -> list[str]:
    return [line for line in end.out.splitlines() if line.startswith("FAIL")]


async def test_doctor_finds_a_healthy_office_healthy_and_counts_the_dead_letters(busy: Office, tmp_path: Path) -> None:
    redis = busy.bot.stores.redis  # type: ignore[union-attr]
    for id in ("Ev1", "Ev2"):
        letter = DeadLetterStore(redis, Keys()).build_bury_writes(LaneItem("lane", id, "{}", 6, 1), "no")
        await apply_writes(redis, Keys(), Keys().get_partition("lane"), letter)
    async with endpoint(past_end=ECHO) as first, endpoint(past_end=ECHO) as second:
        both = {"OPENAI_BASE_URL": first.url, "OPENAI_FALLBACK_MODEL": "other", "OPENAI_API_KEY": "key-one"}
        fine = await command(busy, tmp_path, "doctor", **both, OPENAI_FALLBACK_BASE_URL=second.url)
        assert [one["model"] for one in second.asked] == ["other"] * 2 and "key-one" not in str(second.keys)
        broken = await command(busy, tmp_path, "doctor", **both, OPENAI_FALLBACK_BASE_URL="http://127.0.0.1:1/v1")
    assert fine.code == 0 and not list_failures(fine), fine
    for word in ("workspace T0LOCAL", "scopes: all", "Socket Mode", "redis", "calls tools", "mail", "dead letters: 2",
                 "countersign dead", "model: gpt-6.1-terra answers", "fallback: other answers"):  # fmt: skip
        assert word in fine.out, word
    [failed] = list_failures(broken)
    assert broken.code == 1 and "OPENAI_FALLBACK_BASE_URL" in failed, broken
    assert not [secret for secret in (BOT_TOKEN, APP_TOKEN, "key-one") if secret in fine.all + broken.all]


BROKEN = {
    "SLACK_BOT_TOKEN": "xoxb-wrong-1",
    "SLACK_APP_TOKEN": "xapp-wrong-1",
    "SLACK_API_URL": "http://127.0.0.1:1/api/",
    "SMTP_URL": "smtp://:wrong-1@127.0.0.1:1",
    "OPENAI_BASE_URL": "http://127.0.0.1:1/v1",
    "REDIS_URL": "redis://:wrong-1@127.0.0.1:1",
}


async def test_doctor_names_what_is_broken_and_looks_at_the_rest(empty: Office, tmp_path: Path) -> None:
    """Also the files of the company; and a model's key that nobody has chosen for the bot is left alone."""
    handbook, prices = tmp_path / "handbook", tmp_path / "prices.toml"
    handbook.mkdir()
    (handbook / "leave.md").write_text("# Leave", encoding="utf-8")
    prices.write_text("currency = 5", encoding="utf-8")
    async with endpoint(past_end=ECHO) as model:
        fine = {"OPENAI_BASE_URL": model.url, "HANDBOOK_DIR": str(handbook)}
        broken = {**BROKEN, "PRICES_FILE": str(prices)}
        ends = await asyncio.gather(
            *(command(empty, tmp_path, "doctor", **{**fine, name: value}) for name, value in broken.items())
        )
    for name, end in zip(broken, ends, strict=True):
        [failed] = list_failures(end)
        assert end.code == 1 and name in failed, (name, end)
        assert "Traceback" not in end.all and "wrong-1" not in end.all, (name, end)
        assert end.out.count("ok  ") >= 3, "the rest is looked at all the same"
        assert f"ok   HANDBOOK_DIR: {handbook}" in end.out
    assert failed.startswith("FAIL PRICES_FILE: ") and failed.count("PRICES_FILE") == 1, failed
    env = {"REDIS_URL": empty.redis_url, "OPENAI_API_KEY": "sk-not-a-real-one"}
    played, doctor = await asyncio.gather(
        ran("eval", "--model", "endpoint", cwd=tmp_path, env=env), ran("doctor", cwd=tmp_path, env=env)
    )
    assert played.code == 1 and "set OPENAI_MODEL and" in played.err, played
    assert "model: a local stand-in is used" in doctor.out, doctor


async def test_doctor_counts_those_for_whom_nobody_can_decide(empty: Office, tmp_path: Path) -> None:
    """And says how to mend it: by a manager, or by a row that permits a choice."""
    alone = "".join(f'[[person]]\nemail = "{name}@example.com"\n' for name in ("zhangsan", "lisi", "wangwu", "admin"))
    choice = "".join(
        f'[[policy]]\nprocess = "{one}"\nlevel = "approver"\nwho = ["manager"]\nothers = "flagged"\n'
        for one in ("leave", "expense")
    )
    (tmp_path / "alone.toml").write_text(alone, encoding="utf-8")
    (tmp_path / "choice.toml").write_text(choice, encoding="utf-8")
    lone = {"DIRECTORY_FILE": str(tmp_path / "alone.toml")}
    async with endpoint(past_end=ECHO) as model:
        fine, bad, free = await asyncio.gather(
            command(empty, tmp_path, "doctor", OPENAI_BASE_URL=model.url, DIRECTORY_FILE=str(DEMO)),
            command(empty, tmp_path, "doctor", OPENAI_BASE_URL=model.url, **lone),
            command(empty, tmp_path, "doctor", OPENAI_BASE_URL=model.url, **lone,
                    POLICY_FILE=str(tmp_path / "choice.toml")),
        )  # fmt: skip
    assert "leave: somebody can decide for each of 6 people" in fine.out, fine
    first, second, third = [line for line in bad.out.splitlines() if line.startswith("warn approvers: leave")]
    assert "leave, approver: nobody can decide for 5 of 6 people (zhangsan@example.com, " in first, bad
    assert "second_approver: nobody" in second and "third_approver: nobody" in third, bad
    assert "DIRECTORY_FILE" in first and 'others = "flagged"' in first
    assert "leave, approver: nobody" not in free.out and "leave, second_approver: nobody" in free.out, free
    assert "expense, finance_approvers: nobody can decide for 6 of 6 people" in free.out, free


async def test_doctor_says_that_a_model_only_chats_and_which_style_is_used_for_it(
    empty: Office, tmp_path: Path
) -> None:
    async with endpoint([said("Hello!")]) as model, endpoint([said("Hello!")]) as again:
        end = await command(empty, tmp_path, "doctor", OPENAI_BASE_URL=model.url)
        styled = await command(empty, tmp_path, "doctor", OPENAI_BASE_URL=again.url, REACT_STYLE="auto")
    assert end.code == 1 and "does not call tools" in end.out
    assert styled.code == 0 and "answers; style: text" in styled.out, styled


# What administrators read stands on a terminal of 80 columns: no line wraps, no id is broken, people have names


NARROW = {"COLUMNS": "80"}
ZH, EN = {"LANG": "zh_CN.UTF-8"}, {"LANG": "en_US.UTF-8"}


async def test_nothing_wraps_no_id_is_broken_a_run_is_told_in_words_and_times_have_their_zone(
    busy: Office, tmp_path: Path
) -> None:
    async def read(*commands: tuple[str, ...], **env: str) -> list[str]:
        ends = await asyncio.gather(*(ran(*one, cwd=tmp_path, env={**busy.shell, **env}) for one in commands))
        assert [end.code for end in ends] == [0] * len(ends), ends
        return [end.out for end in ends]

    (card,) = await busy.approvals.list_open_approvals()
    since = ("audit", "--since", "2026-11-01")
    for words, zhang, li, waits_for in ((ZH, "张三", "李四", "等谁"), (EN, "Zhang San", "Li Si", "Waits for")):
        narrow = await read(("tail",), ("pending",), since, ("usage",), **NARROW, **words)
        assert not [line for out in narrow for line in out.splitlines() if cell_len(line) > 80], narrow
        tail, pending, audit, usage = narrow
        assert f"{zhang} {ZHANG}" in tail and f"{li} {LI}" in pending and card.id in pending and waits_for in pending
        assert "E-0001-1" in pending and "500.00" in pending and "engine" not in pending
        assert zhang in audit and ZHANG in audit and zhang in usage
        assert re.search(r"\d{4}-\d\d-\d\d", audit), "a day stays whole"
    [zh], [en] = await read(("tail",), **ZH), await read(("tail",), **EN)
    assert "写来 11 个字" in zh and "writes: 11 characters" in en
    assert re.search(r"run\.finished .*已答复，\d+ 步，[\d.]+ 秒，[\d,]+ token。系统记录：.*E-0001", zh), zh
    told = r"run\.finished .*answered in \d+ steps?, [\d.]+ s, [\d,]+ tokens\. 系统记录：.*E-0001"
    assert re.search(told, en), "no secret"
    assert "run=R" in en and "characters=11" in en, "into a pipe goes all of it"
    zones = {"Asia/Shanghai": r"\+0800", "America/St_Johns": r"-0[23]30", "UTC": r"\+0000"}
    for zone, offset in zones.items():
        for out in await read(("tail",), ("pending",), ("top", "--once"), since, **NARROW, **EN, TZ=zone):
            times = re.findall(r"\d\d:\d\d(?::\d\d)?\S*", out)
            assert times and all(re.fullmatch(rf"[\d:]+{offset}", one) for one in times), out


async def test_a_line_comes_when_a_message_arrives_not_when_it_is_answered(busy: Office, tmp_path: Path) -> None:
    async with started("tail", "-f", cwd=tmp_path, env={**busy.shell, **EN, **NARROW}) as child:
        await printed(child, "run.finished")
        note = Journal(busy.bot.stores.redis, Keys()).build_record_write(
            "slack:x", "message.received", person=LI, characters=2
        )
        lanes = busy.bot.stores.lanes
        await lanes.enqueue_or_claim("", "slack:x", "m1", '{"kind": "of_the_future"}', note=note)  # nobody handles it
        assert f"Li Si {LI}" in await printed(child, "writes: 2 characters")
        await lanes.enqueue_or_claim("", "slack:x", "m1", '{"kind": "of_the_future"}', note=note)
        child.terminate()
        await ended(child)
    arrived = [one for one in await busy.journal(kinds=["message.received"]) if one.person == LI]
    assert len(arrived) == 1, "what is delivered twice arrives once"


async def test_names_need_no_slack_while_a_bot_is_at_work(busy: Office, tmp_path: Path) -> None:
    assert busy.bot is not None
    async with asyncio.timeout(20):
        while not await ProcessStore(busy.bot.stores.redis, Keys()).find_team():
            await asyncio.sleep(0.02)
    away = {"REDIS_URL": busy.redis_url, "SLACK_API_URL": "http://127.0.0.1:1/api/"}
    tokens = {"SLACK_BOT_TOKEN": BOT_TOKEN, "SLACK_APP_TOKEN": APP_TOKEN}
    for env in (away, {**away, **tokens}):
        end = await ran("tail", cwd=tmp_path, env={**env, **NARROW, **ZH})
        assert f"张三 {ZHANG}" in end.out and not end.err, end


def record(**changes: object) -> JournalRecord:
    values = {"at_ms": 1, "id": "1-0", "kind": "step", "run": "R00aaaaaaaaaaaa", "person": ZHANG, "channel": "C1",
              "text": "看看" * 60, "more": {"tool": "list_people"}, **changes}  # fmt: skip
    return JournalRecord(**values)  # type: ignore[arg-type]


def test_a_notice_is_told_in_words() -> None:
    def tell(text: str, language: str) -> str:
        return format_record_line(record(kind="notice", text=text, more={}), "", language, None)

    notices = sorted(key for key in load_sentences() if key.startswith("notice."))
    assert len(notices) > 10
    for key, language in product((*notices, "command.welcome"), ("zh", "en")):
        line = tell(key, language)
        assert key not in line and "{" not in line and "\n" not in line, line
    assert "Your … request … is approved" in tell("notice.ended_approved", "en")
    assert "notice.of_another_version" in tell("notice.of_another_version", "zh")


def test_a_line_never_wraps_whatever_is_in_it() -> None:
    names = ("张三", "", "Maximiliana Featherstonehaugh-Cholmondeley")
    kinds = ("step", "run.finished", "of.another.version", "run.stopped", "message.received")
    extras = ({}, {"ms": "odd", "tokens_in": None, "steps": []}, {"cost": "0.1", "currency": "USD"})
    for width, name, kind, more in product((20, 41, 80, 81, 200), names, kinds, extras):
        line = format_record_line(record(kind=kind, more=more), name, "en", width)
        plain = re.sub(r"\x1b\[[0-9;]*m", "", line)
        assert cell_len(plain) <= width, (kind, plain)
        assert "\n" not in plain
    assert "看看" * 60 in format_record_line(record(), name, "en", None), "the control: nobody looks, nothing is cut"


def test_a_cut_text_says_so() -> None:
    assert [cut_to_cells("报销单", width) for width in (6, 5, 4)] == ["报销单", "报销…", "报…"]
