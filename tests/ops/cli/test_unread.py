"""Secrets that were written, answered, mailed and thrown: no command prints one, no log, no file and no collector has
one."""

import asyncio
import base64
import io
import json
import os
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from bot.agent.model import ModelReply
from bot.core import logs
from bot.core.redaction import forget_secrets
from bot.features.grounding.feature import RULES
from bot.ops.cli import console
from bot.ops.log_output import configure_logging
from bot.queue.keys import Keys
from bot.queue.lanes import LaneItem
from bot.queue.writes import apply_writes
from bot.storage.dead_letters import DeadLetterStore
from bot.storage.journal import Journal
from bot.tracing import lines
from tests.harness.office import APP_TOKEN, BOT_TOKEN, LI, ZHANG, Office, list_buttons, office
from tests.harness.programs import ROOT, Ended, invoke, list_commands
from tests.harness.scripted_model import Scripted, ScriptedModel
from tests.harness.secrets import LEAKS
from tests.stories.endpoint import Endpoint, Raw, endpoint
from tests.stories.script import calls, expense, mail
from tests.tools.mcp.running import World
from tests.tracing.receiver import Receiver, receiver

OWN = {
    "SLACK_SIGNING_SECRET": "signing 3/é&+,7",
    "OPENAI_API_KEY": "openai key/4+9",
    "OPENAI_FALLBACK_API_KEY": "fallback,5/tulip",
    "ENGINE_PASSWORD": "engine-6 with blanks",
    "OTEL_EXPORTER_OTLP_HEADERS": "x-team=otel-12/rose,Authorization=Bearer%20otel-13-lily",
}
"""Secrets of the settings that look like nothing."""
OURS = [*list(OWN.values())[:4], "otel-12/rose", "otel-13-lily", "smtp/pass-7", "wiki-84 +dahlia", BOT_TOKEN, APP_TOKEN]
"""The same as they are sent, with what the mail server's address and the file of MCP servers have."""
SAID = [said for said, _ in LEAKS.values()]
SAID += [f"own: {one} and {quote(one, safe='')} or {base64.b64encode(one.encode()).decode()} end" for one in OURS]
UNREAD = [secret for _, secret in LEAKS.values()]
UNREAD += [spelled for one in OURS for spelled in (one, quote(one, safe=""), base64.b64encode(one.encode()).decode())]
CHUNK = 480
"""Characters of what is said at once: the reason of an expense holds no more."""


def chunks() -> Iterator[str]:
    """All of it, in messages: each shape on lines of its own."""
    text = ""
    for said in SAID:
        if text and len(text) + len(said) > CHUNK:
            yield text
            text = ""
        text += said + "\n"
    yield text


def find_secret(text: str, secret: str) -> str:
    """Where it can be read, also in JSON and in JSON in JSON."""
    quoted = json.dumps(secret, ensure_ascii=False)[1:-1]
    for spelled in (secret, quoted, json.dumps(quoted, ensure_ascii=False)[1:-1]):
        if (at := text.find(spelled)) >= 0:
            return text[max(at - 60, 0) : at + len(spelled) + 20]
    return ""


@dataclass
class Place:
    """Where it happened, and everything that it has left."""

    office: Office
    collector: Receiver
    model: Endpoint
    logged: io.StringIO
    folder: Path
    runs: list[str] = field(default_factory=list)


def replies() -> Iterator[Scripted]:
    """A model that repeats whatever it is told, as reason, argument, mail, form and answer."""
    for text in chunks():
        yield calls(("list_people", {"name": "李四", "reason": text}), ("wiki__echo", {"text": text}))
        yield calls(("wiki__fail", {"text": text}), ("wiki__tell_secret", {}), ("no_such_tool", {"x": text}))
        yield mail(subject=" ".join(text.split())[:150], body=text)
        yield ModelReply(text=text)
        yield expense(reason=text)
        yield ModelReply(text=text)


class Stubborn(ScriptedModel):
    """Keeps to its answer when it is asked to correct it: among secrets stand words like *sent*."""

    async def request_reply(self, messages: Sequence[str], extra: str, *, timeout_s: float) -> ModelReply:
        if RULES in json.loads(messages[0])["content"]:
            return ModelReply(
                text=json.loads(messages[1])["content"].partition("<answer>\n")[2].partition("\n</answer>")[0]
            )
        return await super().request_reply(messages, extra, timeout_s=timeout_s)


@pytest.fixture
async def place(
    valkey: str, tmp_path: Path, stream: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Place]:
    """Zhang San says all of it, in mails, expenses and calls; Li Si sends each back with all of it; some things break
    and say so."""
    world, file = World(tmp_path / "world"), tmp_path / "mcp.toml"
    command = json.dumps(world.server("wiki").command)
    file.write_text(
        f'[servers.wiki]\ncommand = {command}\nenv = {{ WIKI_TOKEN = "${{WIKI}}" }}\n'
        'tools = { fail = "none", tell_secret = "none", echo = "none" }\n',
        encoding="utf-8",
    )
    refusal = Raw(status=401, body={"error": {"message": "Incorrect API key: " + "\n".join(SAID)}})
    async with office(valkey) as opened, receiver() as collector, endpoint(past_end=refusal) as model:
        smtp = opened.smtp_url.replace("smtp://", "smtp://lisi:smtp%2Fpass-7@")
        settings: dict[str, str] = {
            **OWN, "WIKI": "wiki-84 +dahlia", "MCP_FILE": str(file), "REDIS_URL": opened.redis_url,
            "SLACK_BOT_TOKEN": BOT_TOKEN, "SLACK_APP_TOKEN": APP_TOKEN, "SLACK_API_URL": f"{opened.address}/api/",
            "SMTP_URL": smtp, "OPENAI_BASE_URL": model.url,
            "OPENAI_FALLBACK_MODEL": "second", "OPENAI_FALLBACK_BASE_URL": model.url, "COLUMNS": "60000",
            "LANG": "zh_CN.UTF-8",
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "TRACES": "otlp",
            "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "SPAN_ONLY",
        }  # fmt: skip
        for name, value in settings.items():
            monkeypatch.setenv(name, value)
        monkeypatch.chdir(tmp_path)
        there = Place(opened, collector, model, stream, tmp_path)
        configure_logging("DEBUG", json=True, stream=stream)
        await live(there, file)
        yield there
    forget_secrets()


async def live(there: Place, file: Path) -> None:
    """What the fixture tells."""
    office = there.office
    traced = {"traces": "otlp", "otel_exporter_otlp_endpoint": there.collector.url}
    traced["otel_instrumentation_genai_capture_message_content"] = "SPAN_ONLY"
    with_secrets = (*OWN, "SMTP_URL", "SLACK_BOT_TOKEN", "SLACK_APP_TOKEN")
    values = {name.lower(): os.environ[name] for name in with_secrets}
    values["history_tokens"] = "60000"  # nothing is folded: the script has no reply for that
    async with office.opened(model=Stubborn(list(replies())), mcp_file=file, tools_most=60, **values, **traced) as bot:
        here, with_li, pressed = office.dm(ZHANG), office.dm(LI), set[str]()
        for number, text in enumerate(chunks(), 1):
            await office.says(ZHANG, text)
            await press(office, "send", pressed)
            await office.until(lambda n=number: len(office.finals(here)) >= 2 * n - 1)
            await office.says(ZHANG, text)
            await press(office, "confirm", pressed)
            task = await office.card(with_li, f"E-{number:04}")
            await office.until(lambda n=number: len(office.finals(here)) >= 2 * n)
            await office.press(LI, task, "reject")
            await office.fill(LI, opinion=text)
            await office.until(lambda n=number: len(office.cards(here)) >= n)
        await office.quiet()
        logs.get_logger("bot.story").error("it broke", error=SAID, text="\n".join(SAID))
        there.runs = sorted({one.run for one in await office.journal() if one.run})
        letter = DeadLetterStore(bot.stores.redis, Keys()).build_bury_writes(
            LaneItem("lane", "Ev1", json.dumps({"x": SAID}), 6, 1), "\n".join(SAID)
        )
        await apply_writes(bot.stores.redis, Keys(), Keys().get_partition("lane"), letter)
        await Journal(bot.stores.redis, Keys()).append_record("lane", "item.failed", text="\n".join(SAID), error=SAID)


async def press(office: Office, choice: str, pressed: set[str]) -> None:
    """Zhang San presses this on the newest card that has it. One that they have pressed may show its button for a
    moment longer."""

    def having() -> list[dict[str, Any]]:
        cards = [card for card in office.cards(office.dm(ZHANG)) if card["ts"] not in pressed]
        return [card for card in cards if any(one["action_id"] == f"cs:{choice}" for one in list_buttons(card))]

    card = (await office.until(having))[-1]
    pressed.add(card["ts"])
    await office.press(ZHANG, card, choice)


TRIP = str(ROOT / "tests/tools/workflow/processes/trip.bpmn")
SINCE = ("--since", "2026-11-01")
"""Requests have the day of the story, whatever day it is."""
ASKED: dict[str, list[tuple[str, ...]]] = {
    "run": [],
    "doctor": [("doctor",)],
    "tail": [("tail",), ("tail", "--json"), ("tail", "--person", ZHANG, "--since", "7d")],
    "show": [],
    "pending": [("pending",), ("pending", "--json")],
    "top": [("top",), ("top", "--once"), ("top", "--json")],
    "usage": [("usage",), ("usage", "--json"), ("usage", "--by", "model")],
    "export": [("export", *more) for more in ((), ("--content",), ("--content", "--out", "runs.jsonl"), ("--otlp",))],
    "eval": [("eval", "--scenarios", "mine", "--json", "eval.json", "--html", "eval.html")],
    "dead": [("dead",), ("dead", "--json")],
    "dead retry": [("dead", "retry", "Ev1")],
    "audit": [("audit", *SINCE), ("audit", *SINCE, "--json"), ("audit", *SINCE, "--csv")],
    "audit verify": [("audit", "verify")],
    "audit heads": [("audit", "heads")],
    "processes list": [("processes", "list"), ("processes", "list", "--json")],
    "processes check": [("processes", "check", TRIP)],
    "processes export": [("processes", "export", "leave", "--into", "out")],
    "processes reference": [("processes", "reference")],
    "processes deploy": [("processes", "deploy", TRIP, "--yes")],
    "processes migrate": [("processes", "migrate", "leave", "--dry-run")],
    "processes assign": [("processes", "assign", "L-0001-1", "U3", "--yes")],
    "restored": [("restored",), ("restored", "--first"), ("restored", "--accept")],
    "upgrade": [("upgrade", "--check")],
    "backup": [("backup", "runs.jsonl")],  # there already: refused
    "restore": [("restore", "runs.jsonl", "--yes")],  # no backup: refused
    "person export": [("person", "export", ZHANG)],
    "person forget": [("person", "forget", "U0NOBODY", "--yes")],
    "person leave": [("person", "leave", "U0NOBODY", "--to", ZHANG, "--yes")],
    "init": [("init", "--no-input", "--file", "made.env")],
    "check": [("check",)],
    "new tool": [("new", "tool", "send_email")],  # there already: refused
}
"""How each command is asked. What `run` prints is its log; `show` is asked for every run."""


FAILING = """
title = "Secrets"
language = "en"
category = "wrong_tool"
only = "script"
act = [{{ who = "zhaoliu", says = {said} }}]
evidence = {{ has = [{said}] }}
reply = [{{ say = {said} }}]
"""
"""A scenario that fails, and says why."""


def test_every_command_of_the_program_is_asked() -> None:
    assert set(ASKED) == list_commands()


@pytest.mark.slow
@pytest.mark.timeout(400)
async def test_no_secret_is_read_in_what_any_command_prints_logs_writes_or_sends(
    place: Place, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def ask(*words: str) -> Ended:
        return await asyncio.to_thread(invoke, capsys, monkeypatch, *words)

    said = json.dumps("\n".join(SAID[:40]), ensure_ascii=False)
    (place.folder / "mine").mkdir()
    (place.folder / "mine" / "secrets_en.toml").write_text(FAILING.format(said=said), encoding="utf-8")
    shows = [("show", run) for run in place.runs]
    told = {"run": place.logged.getvalue()}
    for asked in (*(one for ways in ASKED.values() for one in ways), *shows):
        forget_secrets()  # each is a process that knows nothing yet
        end = await ask(*asked)
        assert end.all and "Traceback" not in end.err, (asked, end)
        told[" ".join(asked)] = end.all
    told |= {name: (place.folder / name).read_text() for name in ("runs.jsonl", "eval.json", "eval.html")}
    sent = [json.dumps([one.name, dict(one.attributes)], ensure_ascii=False) for one in place.collector.spans]
    told["collector"] = "\n".join(sent)
    read = {name: [found for one in UNREAD if (found := find_secret(text, one))] for name, text in told.items()}
    assert {name: found for name, found in read.items() if found} == {}
    for name in ("run", "tail --json", "export --content", "dead", "collector"):
        assert "***" in told[name], f"control: {name} is told what was said"
    assert place.model.keys, "doctor has asked the model, which repeated its key"
    for module in (console, lines):  # negative control: without redaction the same commands print them, every one
        monkeypatch.setattr(module, "redact_text", lambda text, **_: text)
    shown = "\n".join([(await ask(*one)).out for one in shows])
    for text in (shown, (await ask("export", "--content")).out):
        assert [secret for secret in UNREAD if "\n" not in secret and not find_secret(text, secret)] == []
