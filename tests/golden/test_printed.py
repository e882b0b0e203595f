"""What the commands of `countersign` print after a story: for people in both languages, and for programs."""

import asyncio
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bot.app.settings import Settings
from tests.golden.golden_files import compare_sections, format_json, hide_changing
from tests.golden.stored import describe_shape
from tests.harness.office import BOT_TOKEN, LI, WANG, ZHANG, Office, office
from tests.harness.programs import invoke
from tests.harness.scripted_model import ScriptedModel
from tests.stories.script import DONE, calls, expense, mail

LANGUAGES = {"en": "en_US.UTF-8", "zh": "zh_CN.UTF-8"}
SHIFTING = (
    (re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(\+\d\d:\d\d|Z)?"), "<time>"),
    (re.compile(r"\b(\d{4}-)?\d\d-\d\d \d\d:\d\d(:\d\d)?([+-]\d{4})?\b"), "<time>"),
    (re.compile(r"\b\d\d:\d\d:\d\d([+-]\d{4})?\b"), "<time>"),
    (re.compile(r"\b\d+\.\d s\b"), "<n> s"),
    (re.compile(r"\b\d+ ms\b"), "<n> ms"),
    (re.compile(r"\bms=\d+"), "ms=<n>"),
    (re.compile(r'(?<="ms": )\d+|(?<="active_ms": )\d+'), "0"),
)
"""What is another one each time."""
PRINTED = ("tail", "pending", "dead", "audit", "processes list")
FOR_PROGRAMS = (
    *(f"{name} --json" for name in (*PRINTED, "usage", "usage --by model")),
    *("export", "export --content"),
)


def hide(text: str) -> list[str]:
    for pattern, placeholder in SHIFTING:
        text = pattern.sub(placeholder, text)
    return [line.rstrip() for line in map(hide_changing, text.splitlines())]


def sort_entries(lines: Sequence[str]) -> list[str]:
    """Sort the entries of a table: which card expires first depends on the day, because people's hours do."""
    head, *entries = re.split(r"\n(?= *<time>)", "\n".join(lines).rstrip())
    return "\n".join([head, *sorted(entries)]).split("\n")


def hide_values(value: Any, name: str = "") -> Any:
    """What is printed for programs: durations, times and what was used are another one each time."""
    if isinstance(value, dict):
        return {key: hide_values(one, key) for key, one in value.items()}
    if isinstance(value, list):
        return [hide_values(one) for one in value]
    if isinstance(value, str):
        return "\n".join(hide(value)) if value else value
    changing = name in ("ms", "active_ms") or (name.endswith("_ms") and value) or re.search(r"tokens|unpriced", name)
    return "<n>" if isinstance(value, int) and not isinstance(value, bool) and changing else value


def read_lines(text: str) -> list[str]:
    """One value a line of JSON; of several of one kind the first, in the order of their text."""
    picked: dict[str, Any] = {}
    for value in sorted((hide_values(json.loads(line)) for line in text.splitlines()), key=json.dumps):
        picked.setdefault(f"{value.get('kind')} {sorted(value)}", value)
    return [line for value in picked.values() for line in format_json(value).split("\n")]


async def tell_story(desk: Office) -> None:
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
    broken = RuntimeError("cannot digest xoxb-1-secret")
    model = ScriptedModel([*(replace(one, tokens_in=1000, tokens_out=20) for one in said), *[broken] * 9])
    for setting in Settings.model_fields:
        monkeypatch.delenv(setting.upper(), raising=False)  # those of this machine are none of the story's
    async with (
        office(valkey) as desk,
        desk.opened(model=model, tuned={"max_tries": 2, "backoff_ms": 10, "alert_pause_s": 0.1}),
    ):
        await tell_story(desk)
        await desk.noted("alert")  # administrators are told every ten seconds, here at once
        run_id = (await desk.journal(kinds=["run.finished"]))[0].run
        monkeypatch.chdir(tmp_path)  # no foreign .env
        for name, value in (
            ("REDIS_URL", valkey), ("SLACK_BOT_TOKEN", BOT_TOKEN), ("SLACK_APP_TOKEN", "xapp-x"),
            ("SLACK_API_URL", f"{desk.address}/api/"), ("COLUMNS", "200"),
        ):  # fmt: skip
            monkeypatch.setenv(name, value)

        async def run(name: str, *more: str, lang: str = "en") -> str:
            monkeypatch.setenv("LANG", LANGUAGES[lang])
            capsys.readouterr()
            arguments = [*name.split(), *more, *(["--request", "E-0001"] if name.startswith("audit") else [])]
            end = await asyncio.to_thread(invoke, capsys, monkeypatch, *arguments)
            assert end.code == 0, end
            return end.out

        found = {f"{name}, {lang}": hide(await run(name, lang=lang)) for name in PRINTED for lang in LANGUAGES}
        found |= {"tail, en": sorted(hide(await run("tail"))), "show": hide(await run("show", run_id))}
        found["audit --csv"] = hide(await run("audit --csv"))
        found |= {f"pending, {lang}": sort_entries(found[f"pending, {lang}"]) for lang in LANGUAGES}
        del found["tail, zh"]  # its lines are for both
        compare_sections("printed/for_people.txt", found)
        programs = {name: await run(name) for name in FOR_PROGRAMS}
        shape = sorted({describe_shape(line) for line in programs.pop("export").splitlines()})
        shown = {name: read_lines(text) for name, text in programs.items()}
        compare_sections("printed/for_programs.txt", {**shown, "export, without content": shape})
