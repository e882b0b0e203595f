"""What the commands of `countersign` print after a story, and how they are called."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from inspect import formatannotation
from pathlib import Path
from typing import Any

import pytest
import typer

from bot.agent.model import Messages, ModelReply
from bot.cli import app
from tests.golden.pinned import compare, compare_json, hide_changing, list_distinct, unfold
from tests.golden.recording import log_nothing, record
from tests.harness.office import BOT_TOKEN, LI, WANG, ZHANG, Office
from tests.harness.programs import invoke
from tests.harness.scripted_model import ScriptedModel
from tests.stories.script import DONE, calls, expense, mail

ENGLISH, CHINESE = "en_US.UTF-8", "zh_CN.UTF-8"
ISO = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(\+\d\d:\d\d|Z)?")
TIME = re.compile(r"\b(\d{4}-)?\d\d-\d\d \d\d:\d\d(:\d\d)?\b")
SHIFTING = (
    (TIME, "<time>"),
    (re.compile(r"\b\d\d:\d\d:\d\d\b"), "<time>"),
    (re.compile(r"\b\d+\.\d s\b"), "<n> s"),
    (re.compile(r"\b\d+ ms\b"), "<n> ms"),
    (re.compile(r"\bms=\d+"), "ms=<n>"),
)
"""What is another one each time, in lines for people."""


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with log_nothing():
        yield


def break_down(messages: Messages) -> ModelReply:
    raise RuntimeError("cannot digest xoxb-1-secret")


def hide(text: str) -> str:
    for pattern, placeholder in SHIFTING:
        text = pattern.sub(placeholder, text)
    return "\n".join(line.rstrip() for line in map(hide_changing, text.splitlines()))


def read_json(text: str) -> list[Any]:
    return list_distinct(unfold(json.loads(TIME.sub("<time>", ISO.sub("<time>", line)))) for line in text.splitlines())


async def live(desk: Office) -> None:
    """A request that is approved, one that waits, a mail that waits, a message that is given up."""
    here = desk.dm(ZHANG)
    await desk.says(ZHANG, "报销 500 元")
    card = await desk.card(here)
    await desk.quiet()
    await desk.press(ZHANG, card, "confirm")
    card = await desk.card(desk.dm(LI), "E-0001")
    await desk.until(lambda: desk.finals(here))
    await desk.quiet()
    await desk.press(LI, card, "approve")
    await desk.quiet()
    await desk.says(ZHANG, "再报销 80 元")
    card = await desk.card(here, "80.00")
    await desk.quiet()
    await desk.press(ZHANG, card, "confirm")
    await desk.card(desk.dm(LI), "E-0002")
    await desk.quiet()
    await desk.answer(WANG, "who is here")
    await desk.quiet()
    await desk.says(WANG, "mail Li Si")
    await desk.card(desk.dm(WANG))
    await desk.quiet()
    await desk.says(LI, "毒")
    await desk.until(lambda: len(desk.posts(desk.dm(LI))) > 1 and "我试了几次" in desk.said(desk.dm(LI)))
    await desk.quiet()


async def test_what_commands_print(
    valkey: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    look = calls(("list_people", {"name": "李"}))
    said = [expense(), DONE, expense(amount="80"), DONE, look, DONE, mail()]
    model = ScriptedModel([*(replace(one, tokens_in=1000, tokens_out=20) for one in said), *[break_down] * 9])
    tuned = {"max_tries": 2, "backoff_ms": 10}
    async with record("commands", valkey, monkeypatch, begins=None, model=model, tuned=tuned) as (desk, _):
        await live(desk)
        run_ids = [one.run for one in await desk.journal(kinds=["run.finished"])]
        monkeypatch.chdir(tmp_path)  # no foreign .env
        for name, value in (
            ("REDIS_URL", valkey), ("SLACK_BOT_TOKEN", BOT_TOKEN), ("SLACK_APP_TOKEN", "xapp-x"),
            ("SLACK_API_URL", f"{desk.address}/api/"), ("COLUMNS", "200"),
        ):  # fmt: skip
            monkeypatch.setenv(name, value)

        async def run(*arguments: str, lang: str = ENGLISH) -> str:
            monkeypatch.setenv("LANG", lang)
            capsys.readouterr()
            end = await asyncio.to_thread(invoke, capsys, monkeypatch, *arguments)
            assert end.code == 0, end
            return end.out

        printed = {
            "tail": ["tail"],
            "show": ["show", run_ids[0]],
            "pending": ["pending"],
            "dead": ["dead"],
            "audit": ["audit", "--request", "E-0001"],
            "audit_csv": ["audit", "--request", "E-0001", "--csv"],
            "processes": ["processes", "list"],
        }
        for name, arguments in printed.items():
            told = (await run(*arguments)).splitlines()
            if name == "tail":
                told = sorted(hide(line) for line in told)
            compare(f"commands/{name}.txt", hide("\n".join(told)))
            if name not in ("tail", "show", "audit_csv"):
                compare(f"commands/{name}_zh.txt", hide(await run(*arguments, lang=CHINESE)))
        machine = {
            "tail": ["tail", "--json"],
            "pending": ["pending", "--json"],
            "dead": ["dead", "--json"],
            "audit": ["audit", "--request", "E-0001", "--json"],
            "processes": ["processes", "list", "--json"],
            "usage_by_person": ["usage", "--json"],
            "usage_by_model": ["usage", "--by", "model", "--json"],
            "export": ["export"],
            "export_content": ["export", "--content"],
        }
        for name, arguments in machine.items():
            compare_json(f"commands/{name}.json", read_json(await run(*arguments)))


def describe(command: Any, name: str) -> list[Any]:
    """A command, its parameters, and the commands below it."""
    parameters = [
        {
            "names": [*one.opts, *one.secondary_opts],
            "kind": one.param_type_name,
            "type": formatannotation(one.type_descriptor.annotation) if hasattr(one, "type_descriptor") else "",
            "default": None if callable(one.default) or one.default is None else str(one.default),
            "help": getattr(one, "help", None),
        }
        for one in command.params
    ]
    below = sorted(getattr(command, "commands", {}).items())
    told = [{"command": name, "help": command.help, "parameters": parameters}]
    return told + [each for below_name, one in below for each in describe(one, f"{name} {below_name}")]


def test_commands_and_their_options() -> None:
    compare_json("commands.json", describe(typer.main.get_command(app), "countersign"))
