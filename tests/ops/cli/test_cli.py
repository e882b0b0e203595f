"""The commands, as programs of their own against an office at work."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bot.agent.model import ModelReply, RawToolCall
from bot.queue.keys import Keys
from bot.queue.lanes import LaneItem
from bot.queue.writes import apply_writes
from bot.storage.dead_letters import DeadLetterStore
from bot.storage.journal import Journal
from tests.harness.office import APP_TOKEN, BOT_TOKEN, DEMO, LI, WANG, ZHANG, Office, office
from tests.harness.programs import ROOT, Ended, ended, printed, ran, started
from tests.harness.scripted_model import ScriptedModel
from tests.stories.endpoint import called as tool_call
from tests.stories.endpoint import endpoint, said
from tests.stories.script import expense

TRIP = str(ROOT / "tests/tools/workflow/processes/trip.bpmn")
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
    everything, plain, one_run, one_person, one_kind, two_kinds, one_channel = await asyncio.gather(
        command(busy, tmp_path, "tail", "--json"),
        command(busy, tmp_path, "tail"),
        command(busy, tmp_path, "tail", "--json", "--run", run),
        command(busy, tmp_path, "tail", "--json", "--person", ZHANG),
        command(busy, tmp_path, "tail", "--json", "--kind", "effect.done"),
        command(busy, tmp_path, "tail", "--json", "--kind", "effect.done", "--kind", "step"),
        command(busy, tmp_path, "tail", "--json", "--channel", busy.dm(WANG)),
    )
    told = lines(everything)
    assert [one["at_ms"] for one in told] == sorted(one["at_ms"] for one in told)  # type: ignore[type-var]
    assert len(told) == len(plain.out.splitlines()) == len(await busy.journal())
    kinds = [one["kind"] for one in told]
    assert {"step", "approval.requested", "effect.started", "effect.done", "run.finished"} <= set(kinds)
    assert kinds.index("effect.started") < kinds.index("effect.done")
    assert any(one.get("approval") == card for one in told)
    assert {one["run"] for one in lines(one_run)} == {run} and len(lines(one_run)) < len(told)
    assert {one["person"] for one in lines(one_person)} == {ZHANG}
    assert [one["kind"] for one in lines(one_kind)] == ["effect.done"]
    assert {one["kind"] for one in lines(two_kinds)} == {"effect.done", "step"}
    assert {one["channel"] for one in lines(one_channel)} == {busy.dm(WANG)}


async def test_tail_follows_across_processes_until_ctrl_c(busy: Office, tmp_path: Path) -> None:
    async with started("tail", "-f", "--kind", "command", cwd=tmp_path, env=busy.shell) as child:
        redis = busy.bot.stores.redis  # type: ignore[union-attr]
        answered = await busy.answer(LI, "待办")
        assert "E-0001" in answered
        told = await printed(child, "tasks")
        assert LI in told
        await Journal(redis, Keys()).append_record("lane", "command", person=WANG, text="by another process")
        await printed(child, "by another process")
        child.send_signal(signal.SIGINT)
        end = await ended(child)
    assert end.code == 130 and "Traceback" not in end.err


async def test_tail_does_not_mind_a_reader_that_goes_away(busy: Office, tmp_path: Path) -> None:
    async with started("tail", "-f", cwd=tmp_path, env=busy.shell) as child:
        await printed(child, "\n")
        child.stdout._transport.close()  # type: ignore[union-attr]
        for _ in range(5):
            await busy.answer(LI, "待办")
        assert child.stderr is not None
        err = (await asyncio.wait_for(child.stderr.read(), 20)).decode()
        assert "Traceback" not in err


async def test_show_prints_a_whole_run(busy: Office, tmp_path: Path) -> None:
    run = await run_of(busy, ZHANG)
    end = await command(busy, tmp_path, "show", run)
    assert end.code == 0, end
    head = end.out.splitlines()[0]
    assert run in head and "done" in head and ZHANG in head
    told = ("报销 500 元", "start_process", "succeeded", "照您说的做", '"amount"', "card: A", "effect.done")
    assert "tokens, 0 cached" in end.out
    for word in told:
        assert word in end.out, word
    other = await command(busy, tmp_path, "show", await run_of(busy, WANG))
    assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(end.out + other.out)


async def test_an_unknown_run_and_an_odd_age_are_one_clear_line(valkey: str, tmp_path: Path) -> None:
    runs = ("R00nothing12345", "nonsense", "R99xxxxxxxxxxxx", "../../etc")
    ends = await asyncio.gather(*(ran("show", run, cwd=tmp_path, env={"REDIS_URL": valkey}) for run in runs))
    for run, end in zip(runs, ends, strict=True):
        assert end.code == 1 and not end.out
        assert end.err.strip() == f"countersign: there is no run {run}; `countersign tail` shows the ids"
    ages, env = {"usage": "7d", "export": "yesterday"}, {"REDIS_URL": valkey}
    ends = await asyncio.gather(*(ran(one, "--since", "yesterday", cwd=tmp_path, env=env) for one in ages))
    for (name, word), end in zip(ages.items(), ends, strict=True):
        assert end.code and word in end.err and "Traceback" not in end.all, (name, end)


async def test_pending_says_what_waits_for_whom(busy: Office, tmp_path: Path) -> None:
    plain, as_json = await asyncio.gather(
        command(busy, tmp_path, "pending"), command(busy, tmp_path, "pending", "--json")
    )
    (one,) = lines(as_json)
    assert one["tool"] == "decide_task" and one["about"] == "E-0001-1" and one["waits_for"] == LI
    assert one["asked_by"] == "engine" and one["until"]
    assert plain.code == 0 and "E-0001-1" in plain.out and LI in plain.out


async def test_nothing_pending_is_said(valkey: str, tmp_path: Path) -> None:
    env = {"REDIS_URL": valkey}
    plain, as_json, empty = await asyncio.gather(
        ran("pending", cwd=tmp_path, env=env),
        ran("pending", "--json", cwd=tmp_path, env=env),
        ran("tail", cwd=tmp_path, env=env),
    )
    assert plain.code == 0 and "Nothing is waiting for anyone" in plain.out
    assert as_json.code == empty.code == 0 and not as_json.out and not empty.out


async def test_doctor_finds_a_healthy_office_healthy_and_counts_the_dead_letters(busy: Office, tmp_path: Path) -> None:
    redis = busy.bot.stores.redis  # type: ignore[union-attr]
    for id in ("Ev1", "Ev2"):
        letter = DeadLetterStore(redis, Keys()).build_bury_writes(LaneItem("lane", id, "{}", 6, 1), "no")
        await apply_writes(redis, Keys(), Keys().get_partition("lane"), letter)
    async with endpoint([tool_call(("echo", '{"word": "hello"}'))]) as model:
        end = await command(busy, tmp_path, "doctor", OPENAI_BASE_URL=model.url)
    assert end.code == 0, end
    for word in (
        "workspace T0LOCAL",
        "scopes: all",
        "Socket Mode",
        "redis",
        "calls tools",
        "mail",
        "dead letters: 2",
        "countersign dead",
    ):
        assert word in end.out, word
    assert "FAIL" not in end.out and BOT_TOKEN not in end.all and APP_TOKEN not in end.all


BROKEN = {
    "SLACK_BOT_TOKEN": "xoxb-wrong-1",
    "SLACK_APP_TOKEN": "xapp-wrong-1",
    "SLACK_API_URL": "http://127.0.0.1:1/api/",
    "SMTP_URL": "smtp://:wrong-1@127.0.0.1:1",
    "OPENAI_BASE_URL": "http://127.0.0.1:1/v1",
    "REDIS_URL": "redis://:wrong-1@127.0.0.1:1",
}


async def test_doctor_names_what_is_broken_and_looks_at_the_rest(empty: Office, tmp_path: Path) -> None:
    async with endpoint(past_end=tool_call(("echo", '{"word": "hello"}'))) as model:
        fine = {"OPENAI_BASE_URL": model.url}
        ends = await asyncio.gather(
            *(command(empty, tmp_path, "doctor", **{**fine, name: value}) for name, value in BROKEN.items())
        )
    for name, end in zip(BROKEN, ends, strict=True):
        failed = [line for line in end.out.splitlines() if line.startswith("FAIL")]
        assert end.code == 1 and len(failed) == 1 and name in failed[0], (name, end)
        assert "Traceback" not in end.all and "wrong-1" not in end.all, (name, end)
        assert end.out.count("ok  ") >= 3, "the rest is looked at all the same"


async def test_doctor_reads_the_files_of_the_company(empty: Office, tmp_path: Path) -> None:
    handbook, prices = tmp_path / "handbook", tmp_path / "prices.toml"
    handbook.mkdir()
    (handbook / "leave.md").write_text("# Leave", encoding="utf-8")
    prices.write_text("currency = 5", encoding="utf-8")
    async with endpoint(past_end=tool_call(("echo", '{"word": "hello"}'))) as model:
        given = {"HANDBOOK_DIR": str(handbook), "PRICES_FILE": str(prices), "OPENAI_BASE_URL": model.url}
        end = await command(empty, tmp_path, "doctor", **given)
    assert f"ok   HANDBOOK_DIR: {handbook}" in end.out
    failed = [line for line in end.out.splitlines() if line.startswith("FAIL")]
    assert end.code == 1 and len(failed) == 1
    assert failed[0].startswith("FAIL PRICES_FILE: ") and failed[0].count("PRICES_FILE") == 1


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
    async with endpoint(past_end=tool_call(("echo", '{"word": "hello"}'))) as model:
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


async def test_doctor_asks_both_models(busy: Office, tmp_path: Path) -> None:
    echo = tool_call(("echo", '{"word": "hello"}'))
    async with endpoint(past_end=echo) as first, endpoint(past_end=echo) as second:
        both = {"OPENAI_BASE_URL": first.url, "OPENAI_FALLBACK_MODEL": "other", "OPENAI_API_KEY": "key-one"}
        fine = await command(busy, tmp_path, "doctor", **both, OPENAI_FALLBACK_BASE_URL=second.url)
        assert fine.code == 0 and "model: gpt-6.1-terra answers" in fine.out, fine
        assert "fallback: other answers" in fine.out, fine
        assert [one["model"] for one in second.asked] == ["other"] * 2 and "key-one" not in str(second.keys)
        broken = await command(busy, tmp_path, "doctor", **both, OPENAI_FALLBACK_BASE_URL="http://127.0.0.1:1/v1")
    failed = [line for line in broken.out.splitlines() if line.startswith("FAIL")]
    assert broken.code == 1 and len(failed) == 1 and "OPENAI_FALLBACK_BASE_URL" in failed[0], broken
    assert "key-one" not in fine.all + broken.all


async def test_every_command_leaves_a_key_alone_that_nobody_chose_for_the_bot(empty: Office, tmp_path: Path) -> None:
    env = {"REDIS_URL": empty.redis_url, "OPENAI_API_KEY": "sk-not-a-real-one"}
    played = await ran("eval", "--model", "endpoint", cwd=tmp_path, env=env)
    assert played.code == 1 and "set OPENAI_MODEL and" in played.err, played
    doctor = await ran("doctor", cwd=tmp_path, env=env)
    assert "model: a local stand-in is used" in doctor.out, doctor


async def test_doctor_says_that_a_model_only_chats_and_which_style_is_used_for_it(
    empty: Office, tmp_path: Path
) -> None:
    async with endpoint([said("Hello!")]) as model:
        end = await command(empty, tmp_path, "doctor", OPENAI_BASE_URL=model.url)
    assert end.code == 1 and "does not call tools" in end.out
    async with endpoint([said("Hello!")]) as model:
        end = await command(empty, tmp_path, "doctor", OPENAI_BASE_URL=model.url, REACT_STYLE="auto")
    assert end.code == 0 and "answers; style: text" in end.out, end


async def test_doctor_on_a_bare_machine_names_the_stand_ins(tmp_path: Path) -> None:
    end = await ran("doctor", cwd=tmp_path, env={"DATA_DIR": str(tmp_path)})
    assert end.code == 0 and end.out.count("stand-in") == 3, end


WITHOUT_REDIS = (
    ("tail",), ("show", "R"), ("pending",), ("usage",), ("dead",), ("dead", "retry", "Ev1"), ("audit",),
    ("audit", "verify"), ("audit", "heads"), ("processes", "list"), ("processes", "deploy", TRIP, "--yes"),
    ("processes", "migrate", "leave"),
)  # fmt: skip


async def test_commands_without_redis_say_how_to_mend_it(tmp_path: Path) -> None:
    env = {"REDIS_URL": "redis://127.0.0.1:1"}
    ends = await asyncio.gather(*(ran(*one, cwd=tmp_path, env=env) for one in WITHOUT_REDIS))
    for asked, end in zip(WITHOUT_REDIS, ends, strict=True):
        assert end.code == 1 and "REDIS_URL" in end.err and len(end.err.strip().splitlines()) == 1, (asked, end)
