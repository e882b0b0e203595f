"""Runs as OpenTelemetry spans: what a collector gets of a whole office at work, and what happens while it is away."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
from structlog.testing import capture_logs

from bot.agent.model import Messages, ModelReply
from bot.app.build import build_app
from bot.core.errors import SettingsError
from bot.tracing import sending
from tests.harness.office import ZHANG, Office, office, quick_settings
from tests.harness.programs import ROOT
from tests.harness.scripted_model import ScriptedModel
from tests.stories.behind import final
from tests.stories.script import calls, mail
from tests.tracing.receiver import Got, Receiver, receiver

SECRET = "sk-abcdefgh12345 password=hunter2 zhangsan@example.com"
ASKED = f"给李四发封邮件，机密 {SECRET}"
SPENT = {"tokens_in": 100, "tokens_cached": 40, "tokens_out": 7}
PEOPLE = calls(("list_people", {"name": "李四"}))
CONTENT = ("机密", "项目进度", "机密主题", "机密答案", "李四你好")


@pytest.fixture
async def empty(valkey: str) -> AsyncIterator[Office]:
    async with office(valkey) as opened:
        yield opened


@pytest.fixture
async def collector() -> AsyncIterator[Receiver]:
    async with receiver() as opened:
        yield opened


def to(collector: Receiver, **more: Any) -> dict[str, Any]:
    return {"traces": "otlp", "otel_exporter_otlp_endpoint": collector.url, **more}


def spent(reply: ModelReply) -> ModelReply:
    return ModelReply(reply.text, reply.calls, reply.finish, **SPENT)


def thinking(reply: ModelReply, s: float = 0.05) -> Any:
    async def thought(messages: Messages) -> ModelReply:
        await asyncio.sleep(s)
        return spent(reply)

    return thought


def the(spans: list[Got], name: str) -> Got:
    [found] = [span for span in spans if span.name == name]
    return found


async def mailed(empty: Office, settings: Mapping[str, Any]) -> float:
    """Looked up, one reply that could not be used, proposed, sent by a button; in two processes. How long there was
    none in between (ms)."""
    script = [thinking(PEOPLE), ModelReply(text=""), thinking(mail(subject="机密主题"))]
    async with empty.opened(model=ScriptedModel(script), **settings):
        await empty.says(ZHANG, ASKED)
        card = await empty.card(empty.dm(ZHANG), "机密主题")
        await empty.quiet()
    ended_s = asyncio.get_running_loop().time()
    async with empty.opened(model=ScriptedModel([thinking(ModelReply(text="机密答案。"))]), **settings):
        without_ms = (asyncio.get_running_loop().time() - ended_s) * 1000
        await empty.press(ZHANG, card, "send")
        await final(empty)
        await empty.quiet()
    return without_ms


async def test_a_run_that_went_on_elsewhere_is_one_trace_by_the_conventions(empty: Office, collector: Receiver) -> None:
    without_ms = await mailed(empty, to(collector))
    spans = await collector.until(1)
    sent = b"".join(collector.bodies)
    assert not [word for word in (*CONTENT, "照您说的做") if word.encode() in sent], "nothing that anybody wrote"
    assert len({span.trace for span in spans}) == 1 and len({span.id for span in spans}) == len(spans)
    root = the(spans, "invoke_agent countersign")
    assert root.parent == "" and not root.failed and root.resource["service.name"] == "countersign"
    chats = collector.named("chat ")
    assert [one.name for one in chats] == ["chat rehearsal"] * 4 and {one.parent for one in chats} == {root.id}
    assert [one.attributes.get("error.type") for one in chats] == [None, "malformed", None, None]
    assert all(one.ms >= 45 for one in chats if not one.failed), "timings are those of the calls"
    first = chats[0].attributes
    assert (first["gen_ai.operation.name"], first["gen_ai.provider.name"]) == ("chat", "openai")
    assert first["gen_ai.request.model"] == "rehearsal" and first["server.address"] == "127.0.0.1"
    assert (first["gen_ai.usage.input_tokens"], first["gen_ai.usage.output_tokens"]) == (100, 7)
    assert first["gen_ai.usage.cache_read.input_tokens"] == 40
    assert root.attributes["gen_ai.usage.input_tokens"] == 300
    assert len({one.attributes["gen_ai.conversation.id"] for one in [root, *chats]}) == 1
    look, send = the(spans, "execute_tool list_people"), the(spans, "execute_tool send_email")
    assert look.attributes["gen_ai.tool.name"] == "list_people" and look.attributes["countersign.gate"] == "none"
    assert {look.parent, send.parent} == {root.id} and look.began_ns >= chats[0].ended_ns
    card = the(spans, "approval")
    assert card.parent == send.id and card.ms >= without_ms > 0, "as long as the person took, also without a process"
    assert card.attributes["countersign.approval.by"] == ZHANG
    assert card.attributes["countersign.approval.choice"] == "send"
    assert send.began_ns <= card.began_ns <= card.ended_ns <= send.ended_ns <= chats[-1].began_ns
    assert all(root.began_ns <= one.began_ns <= one.ended_ns <= root.ended_ns for one in spans)


async def test_a_stop_is_an_error_of_the_trace_but_not_one_by_the_person(empty: Office, collector: Receiver) -> None:
    async with empty.opened(model=ScriptedModel([PEOPLE] * 3 + [ModelReply(text="好")]), **to(collector)):
        await empty.answer(ZHANG, "看看")
        await empty.answer(ZHANG, "再看看")
        await empty.quiet()
    await collector.until(2)
    stopped, fine = collector.named("invoke_agent")
    assert stopped.failed and stopped.attributes["error.type"] == "repetition"
    assert stopped.attributes["countersign.repeated"] == 2
    assert not fine.failed and "error.type" not in fine.attributes
    assert stopped.trace != fine.trace


async def test_negative_control_with_content_it_is_but_for_secrets(empty: Office, collector: Receiver) -> None:
    await mailed(empty, to(collector, otel_instrumentation_genai_capture_message_content="SPAN_ONLY"))
    spans = await collector.until(1)
    sent = b"".join(collector.bodies)
    assert "机密主题".encode() in sent
    root, send = the(spans, "invoke_agent countersign"), the(spans, "execute_tool send_email")
    assert json.loads(root.attributes["gen_ai.input.messages"])[0]["parts"][0]["content"].startswith("给李四发封邮件")
    assert json.loads(root.attributes["gen_ai.output.messages"])[0]["parts"][0]["content"] == "机密答案。"
    assert json.loads(send.attributes["gen_ai.tool.call.arguments"])["subject"] == "机密主题"
    assert "U02LI" in the(spans, "execute_tool list_people").attributes["gen_ai.tool.call.result"]
    assert not [word for word in ("abcdefgh12345", "hunter2", "zhangsan@") if word.encode() in sent]
    assert b"sk-***" in sent and b"z***@example.com" in sent


async def test_headers_go_with_it_and_are_shown_to_nobody(empty: Office, collector: Receiver) -> None:
    settings = to(collector, otel_exporter_otlp_headers="x-key=s%20cret", otel_service_name="desk")
    assert "s%20cret" not in str(quick_settings(**settings).list_masked_values())
    async with empty.opened(model=ScriptedModel([ModelReply(text="好")]), **settings):
        await empty.answer(ZHANG, "看看")
        [span, *_] = await collector.until(1)
    assert collector.headers[0]["x-key"] == "s cret" and span.resource["service.name"] == "desk"


@pytest.mark.parametrize("away", ["closed", "refuses", "hangs"])
async def test_a_collector_that_is_away_stops_nobody(empty: Office, collector: Receiver, away: str) -> None:
    settings = to(collector)
    if away == "closed":
        settings["otel_exporter_otlp_endpoint"] = "http://127.0.0.1:9"
    collector.status = 400
    if away == "hangs":
        collector.taking.clear()
    began = asyncio.get_running_loop().time()
    with capture_logs() as logged:
        async with empty.opened(model=ScriptedModel([ModelReply(text=f"答 {n}") for n in range(3)]), **settings):
            for n in range(3):
                assert f"答 {n}" in await empty.answer(ZHANG, "看看")
            await empty.quiet()
            assert (await empty.kinds()).count("run.finished") == 3
        collector.taking.set()
    assert asyncio.get_running_loop().time() - began < 60
    said = [one for one in logged if "dropped until" in one["event"]]
    assert len(said) == 1 if away == "refuses" else len(said) <= 1
    [end] = [one for one in logged if one["event"] == "traces were dropped"]
    assert (end["dropped"], end["sent"]) == (3, 0)


async def test_when_it_is_back_traces_are_sent_again(empty: Office, collector: Receiver) -> None:
    collector.status = 400
    with capture_logs() as logged:
        async with empty.opened(model=ScriptedModel([ModelReply(text="一"), ModelReply(text="二")]), **to(collector)):
            await empty.answer(ZHANG, "看看")
            async with asyncio.timeout(40):
                while not [one for one in logged if "dropped until" in one["event"]]:
                    await asyncio.sleep(0.02)
            collector.status = 200
            await empty.answer(ZHANG, "再看看")
            await collector.until(1)
    assert [one["dropped"] for one in logged if one["event"] == "traces are sent again"] == [1]


async def test_more_than_can_wait_is_dropped_and_counted(
    empty: Office, collector: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "QUEUED", 1)
    collector.taking.clear()
    with capture_logs() as logged:
        async with empty.opened(model=ScriptedModel([ModelReply(text=f"答 {n}") for n in range(4)]), **to(collector)):
            for n in range(4):
                assert f"答 {n}" in await empty.answer(ZHANG, "看看")
            await empty.quiet()
            collector.taking.set()
            await collector.until(2)
    [end] = [one for one in logged if one["event"] == "traces were dropped"]
    assert end["dropped"] == 2 and end["sent"] == 2


# Off, and what it needs

IMPORTS = (
    "import sys; sys.modules['opentelemetry'] = None; import bot.app.build, bot.ops.cli, bot.ops.cli.run; print('fine')"
)
"""As if it were not installed. (The Redis client takes a look whether it is.)"""


def test_nothing_of_it_is_needed_before_it_is_wanted() -> None:
    found = subprocess.run([sys.executable, "-c", IMPORTS], cwd=ROOT, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "fine"


async def test_without_the_extra_the_start_says_how_to_get_it(empty: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith(("opentelemetry.sdk", "bot.tracing.s"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk", None)
    with pytest.raises(SettingsError, match=r"\[ops\]"):
        async with build_app(quick_settings(traces="otlp"), empty.outside()):
            raise AssertionError("it started")
    async with build_app(quick_settings(), empty.outside()):
        pass
