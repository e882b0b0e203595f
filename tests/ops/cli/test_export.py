"""`countersign export`, as a program of its own: one line a run, without what anybody wrote unless that is wanted."""

import asyncio
import json
import signal
import stat
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from redis.asyncio import Redis

from bot.agent.model import ModelReply
from bot.chat.messages import Message, Place
from bot.core.records import Run, RunStatus
from bot.core.run_state import CallRecord, CallStatus, ModelCall, RunState, fingerprint_call
from bot.features.shipped import RUN_NOTES
from bot.queue.keys import Keys
from bot.queue.writes import apply_writes
from bot.storage.journal import Journal
from bot.storage.runs import RunStore
from bot.tracing.lines import ExportedRun
from tests.harness.office import LI, ZHANG, Office, office
from tests.harness.programs import Ended, ended, printed, ran, started
from tests.harness.scripted_model import ScriptedModel
from tests.stories.behind import final
from tests.stories.script import calls, mail
from tests.tracing.receiver import receiver

SECRETS = ("abcdefgh12345", "hunter2", "zhangsan@")
ASKED = "给李四发封邮件 sk-abcdefgh12345 password=hunter2 zhangsan@example.com"
WRITTEN = ("给李四发封邮件", "项目进度", "好了。", "王五", "Wang Wu")
"""Of the person, of the model, of a tool."""
PEOPLE = calls(("list_people", {"name": "王五"}), ("fly", {"to": "月球"}))


@pytest.fixture
async def busy(valkey: str) -> AsyncIterator[Office]:
    """Zhang San's mail was sent by a button; Li Si goes round in circles, and then has a card that waits."""
    look = calls(("list_people", {"name": "李四"}))
    script = [
        *(replace(PEOPLE, tokens_in=10, tokens_out=2), ModelReply(text=""), mail(), ModelReply(text="好了。")),
        *(look, look, look, mail(to="张三")),
    ]
    async with office(valkey) as opened, opened.opened(model=ScriptedModel(script)):
        await opened.says(ZHANG, ASKED)
        await opened.press(ZHANG, await opened.card(opened.dm(ZHANG)), "send")
        await final(opened)
        await opened.quiet()
        await opened.answer(LI, "看看")
        await opened.says(LI, "发吧")
        await opened.card(opened.dm(LI))
        await opened.quiet()
        yield opened


async def command(url: str, folder: Path, *arguments: str, **env: str) -> Ended:
    return await ran("export", *arguments, cwd=folder, env={"REDIS_URL": url, **env})


def lines(text: str) -> list[ExportedRun]:
    """Every one fits the schema, which takes no field that it does not name."""
    found = [json.loads(line) for line in text.splitlines()]
    notes = [{name: one.pop(name) for name in RUN_NOTES} for one in found]
    return [ExportedRun.model_validate({**one, "notes": noted}) for one, noted in zip(found, notes, strict=True)]


async def test_a_line_a_run_with_its_figures(busy: Office, tmp_path: Path) -> None:
    end = await command(busy.redis_url, tmp_path)
    assert end.code == 0 and "Runs exported: 3." in end.err
    sent, circle, waits = lines(end.out)
    assert [one.outcome for one in (sent, circle, waits)] == ["final", "stopped", "paused"]
    assert (sent.v, sent.person, sent.style, sent.calls, sent.bad_calls) == (1, ZHANG, "native", 3, 1)
    assert (sent.malformed, sent.tokens_in, sent.tokens_out, sent.cost) == (1, 10, 2, 0)
    look, fly, letter = sent.steps
    assert (look.n, fly.n, letter.n) == (1, 1, 2) and look.reason == "照您说的做"
    assert (look.gate, fly.gate, letter.gate) == ("none", None, "confirm")
    assert (look.status, fly.status, letter.status) == ("succeeded", "failed", "succeeded")
    assert look.args_sha == fingerprint_call("list_people", {"person": "王五"})
    assert look.ms is not None and look.began_ms is not None and look.decision is None
    assert letter.approval and letter.decision is not None and letter.ms is not None and letter.began_ms is not None
    assert (letter.decision.by, letter.decision.choice, letter.decision.state) == (ZHANG, "send", "decided")
    assert letter.decision.decided_ms is not None
    assert letter.began_ms <= letter.decision.asked_ms <= letter.decision.decided_ms <= letter.began_ms + letter.ms
    assert [one.outcome for one in sent.replies] == ["act", "malformed", "act", "answer"]
    assert sent.ended_ms is not None and sent.started_ms <= sent.replies[0].at_ms <= sent.ended_ms
    assert (circle.stopped, circle.repeated) == ("repetition", 2)
    assert waits.ended_ms is None and waits.steps[-1].status == "awaiting" and waits.steps[-1].ms is None
    assert waits.steps[-1].decision is not None and waits.steps[-1].decision.state == "open"


async def test_what_was_written_is_left_out_and_with_content_it_is_there_without_secrets(
    busy: Office, tmp_path: Path
) -> None:
    plain, whole = await asyncio.gather(
        command(busy.redis_url, tmp_path), command(busy.redis_url, tmp_path, "--content")
    )
    assert not [word for word in (*WRITTEN, *SECRETS) if word in plain.out]
    assert not {"content", "args", "observation"} & set(json.loads(plain.out.splitlines()[0]))
    assert not [word for word in WRITTEN if word not in whole.out], "the negative control"
    assert not [word for word in SECRETS if word in whole.all] and "sk-***" in whole.out
    sent = lines(whole.out)[0]
    assert sent.content is not None and sent.content.answer == "好了。" and len(sent.content.messages) == 7
    look, fly, letter = sent.steps
    assert look.args == {"person": "王五"} and "U03WANG" in str(look.observation)
    assert "unknown_tool" in str(fly.observation) and "fly" not in str(letter.observation)


async def test_single_runs_can_be_told_a_file_is_new_and_its_owners_alone_and_past_runs_are_sent_as_spans(
    busy: Office, tmp_path: Path
) -> None:
    first, _, third = [one.run for one in lines((await command(busy.redis_url, tmp_path)).out)]
    two, none = await asyncio.gather(
        command(busy.redis_url, tmp_path, "--run", third, "--run", first, "--run", third),
        command(busy.redis_url, tmp_path, "--run", "R00nobody"),
    )
    assert [one.run for one in lines(two.out)] == [third, first]
    assert none.code == 1 and "There is no run R00nobody" in none.err and "Traceback" not in none.all
    file = tmp_path / "runs.jsonl"
    end = await command(busy.redis_url, tmp_path, "--out", str(file), LANG="zh_CN.UTF-8")
    assert end.code == 0 and end.out == "" and "已导出 3 次运行" in end.err
    assert len(lines(file.read_text())) == 3 and stat.S_IMODE(file.stat().st_mode) == 0o600
    again = await command(busy.redis_url, tmp_path, "--out", str(file))
    assert again.code == 1 and "never overwritten" in again.err and len(lines(file.read_text())) == 3
    async with receiver() as collector:
        end = await command(busy.redis_url, tmp_path, "--otlp", OTEL_EXPORTER_OTLP_ENDPOINT=collector.url)
        assert end.code == 0 and "Runs sent: 2" in end.err, "what still waits is sent when it has ended"
        assert len(collector.named("invoke_agent")) == 2 and collector.named("approval")
        collector.status = 400
        refused = await command(busy.redis_url, tmp_path, "--otlp", OTEL_EXPORTER_OTLP_ENDPOINT=collector.url)
    assert refused.code == 1 and "OTEL_EXPORTER_OTLP_ENDPOINT" in refused.err and "Traceback" not in refused.all
    assert (await command(busy.redis_url, tmp_path, "--otlp", "--out", "x")).code == 2


# Many runs

MANY = 800


def run(n: int) -> Run:
    place = Place(team="T1", channel=f"D{n}", direct=True)
    message = Message(id=f"Ev{n}", place=place, person="U1", text="x", at="1.0")
    told = {"args": {"name": "x" * 20}, "reason": "why" * 20, "status": CallStatus.SUCCEEDED}
    steps = [CallRecord(f"R00{n}:{k}:0", "list_people", **told, model_id="c", ended_ms=n) for k in range(1, 9)]
    trace = RunState(calls=steps, model_calls=[ModelCall(n, 1, 2, 3, 4, "act")] * 8, style="native")
    id, ended = Keys().derive_id("R", Keys().get_partition(place.conversation), f"{n}"), RunStatus.DONE
    return Run(id=id, message=message, language="en", created_ms=n, ended_ms=n, status=ended, state=trace)


async def kept(redis: Redis, one: Run) -> None:
    keys, journal, lane = Keys(), Journal(redis, Keys()), one.message.place.conversation
    noted = [journal.build_record_write(lane, kind, run=one.id) for kind in ("step", "run.finished")]
    await apply_writes(redis, keys, keys.get_partition(lane), [*RunStore(redis, keys).build_save_writes(one), *noted])


async def test_many_are_told_as_they_are_found_until_ctrl_c_or_until_nobody_reads(
    redis: Redis, valkey: str, tmp_path: Path
) -> None:
    """More than a pipe holds: the first is there long before the last is read; and as `| head -1` does. Of a run that
    is not kept any more it says so."""
    for n in range(MANY):
        await kept(redis, run(n))
    async with started("export", cwd=tmp_path, env={"REDIS_URL": valkey}) as child:
        first = await printed(child, "\n")
        assert len(lines(first)) == 1 and child.returncode is None
        child.send_signal(signal.SIGINT)
        end = await ended(child)
    told = first + end.out
    assert end.code == 130 and "Traceback" not in end.err
    assert told.endswith("\n") and 0 < len(lines(told)) < MANY, "stopped on the way, and no line is cut"
    async with started("export", cwd=tmp_path, env={"REDIS_URL": valkey}) as child:
        await printed(child, "\n")
        assert child.stdout is not None and child.stderr is not None
        child.stdout._transport.close()  # type: ignore[attr-defined]
        told = (await asyncio.wait_for(child.stderr.read(), 30)).decode()
        assert await child.wait() == 141 and told == ""
    await redis.delete(*[key async for key in redis.scan_iter(f"*:run:{run(1).id}")])
    all_of_them, nothing = await asyncio.gather(command(valkey, tmp_path), command(valkey, tmp_path, "--since", "1s"))
    assert len({one.run for one in lines(all_of_them.out)}) == MANY - 1
    assert all_of_them.code == 0 and "Of 1 more, only the journal is left" in all_of_them.err
    assert nothing.code == 0
