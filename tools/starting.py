"""A tool for each process that requests can be started of, made of its form: `start_leave`, `start_expense`.

It is `start_process` in other words: planned by the same code, and kept, shown and run as a call of that. A tool is
made anew when its process is deployed in another version.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import RootModel, model_validator

from tools.processes import START_PROCESS, StartProcess, prepare_start
from tools.spec import Plan
from tools.tool import Kept, Tool, Use
from tools.workflow.engine import Engine
from tools.workflow.forms import DAYS, NUMBERS, PERSONS, FieldKind, FormField
from tools.workflow.process import Process

START = "start_"
MOST = 6
"""So many processes have tools of their own; the others are started by `start_process`."""
NAME = re.compile(r"[A-Za-z0-9_-]{1,58}")
"""Keys that make a name which endpoints take."""
BY_TABLE = "Only if they named somebody; else left out, the table decides."
LENGTH = "Working days, in place of {end}; halves as 0.5."


FRESH_S = 3.0
"""So long what is deployed is not looked at again (s): a message costs no call of the engine for it."""


class Starts(Mapping[str, Tool]):
    """By name, those of the processes that are deployed now."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._made: dict[tuple[str, str], Tool] = {}
        self._tools: dict[str, Tool] = {}
        self.is_complete = False
        """Whether every process has one."""
        self._looked_s: float | None = None
        self.changes = 0
        """How often what is deployed has changed."""

    def __iter__(self) -> Iterator[str]:
        return iter(self._tools)

    def __len__(self) -> int:
        return len(self._tools)

    def __getitem__(self, name: str) -> Tool:
        return self._tools[name]

    async def refresh(self, engine: Engine) -> None:
        """Takes what is deployed now in the place of what was, if it was not looked at a moment ago."""
        now = asyncio.get_running_loop().time()
        if self._looked_s is not None and now - self._looked_s < FRESH_S:
            return
        processes = await engine.processes()
        self._looked_s = now
        named = [one for one in processes if NAME.fullmatch(one.key) and START + one.key != START_PROCESS.name]
        chosen = {one.version: one for one in named[: self._most]}
        is_complete = len({one.key for one in chosen.values()}) == len(processes)
        if chosen.keys() == self._made.keys() and is_complete == self.is_complete:
            return
        self.changes += 1
        self._made = {version: self._made.get(version) or make_start(one) for version, one in chosen.items()}
        self._tools = {tool.name: tool for tool in self._made.values()}
        self.is_complete = is_complete


def make_start(process: Process) -> Tool:
    """The tool that starts requests of a process."""
    form, key = process.form, process.key
    said = describe_form(process)

    class Fields(RootModel[dict[str, Any]]):
        @model_validator(mode="after")
        def fit(self) -> Fields:
            _start(key, self.root)
            return self

        @classmethod
        def model_json_schema(cls, *args: Any, **kwargs: Any) -> dict[str, Any]:
            return said

    async def prepare(use: Use, args: Fields) -> Plan:
        return await prepare_start(use, _start(key, args.root))

    rules = " ".join(f"{rule.words.en[:1].upper()}{rule.words.en[1:]}." for rule in form.rules)
    return Tool(
        name=START + key,
        purpose=f"Start a request: {form.name.en} ({form.name.zh}). {form.purpose.en}.{' ' if rules else ''}{rules}",
        use_when="They want it.",
        avoid_when="Something required is unknown: ask for all of it.",
        args=Fields,
        returns=START_PROCESS.returns,
        errors=START_PROCESS.errors,
        example={},
        run=START_PROCESS.run,
        gate=START_PROCESS.gate,
        prepare=prepare,
        stored=START_PROCESS.stored,
        also=START_PROCESS.also,
        privacy=START_PROCESS.privacy,
        kept=Kept(START_PROCESS.name, lambda given: {"process": key, "form": _fields(key, given)}),
    )


def _start(key: str, given: Mapping[str, Any]) -> StartProcess:
    return StartProcess.model_validate({"process": key, "form": _fields(key, given)})


def _fields(key: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The fields, also out of the form that `start_process` has."""
    if isinstance(form := given.get("form"), dict) and given.get("process", key) == key:
        given = {**{name: one for name, one in given.items() if name not in ("process", "form")}, **form}
    return dict(given)


def describe_form(process: Process) -> dict[str, Any]:
    """The schema of a form's fields, each by itself."""
    form = process.form
    properties, required = dict[str, Any](), list[str]()
    for field in form.fields:
        properties[field.name] = _describe_field(field, is_by_table=field.name in process.deciding)
        if form.days and field.name == form.days.end and form.takes_days:
            said = LENGTH.format(end=field.name)
            properties[DAYS] = {"type": "number", "description": said}
        elif field.required and not field.default and field.name not in process.deciding:
            required.append(field.name)
    return {"type": "object", "properties": properties, **({"required": required} if required else {})}


def _describe_field(field: FormField, *, is_by_table: bool) -> dict[str, Any]:
    kind: dict[str, Any] = {"type": "number" if field.kind in NUMBERS else "string"}
    if field.kind is FieldKind.DATE:
        kind["format"] = "date"
    if field.options:
        kind["enum"] = [option.value for option in field.options]
    said = BY_TABLE if is_by_table and field.kind in PERSONS else _explain(field)
    return {**kind, **({"description": said} if said else {})}


def _explain(field: FormField) -> str:
    """The form's own words; what a choice stands for where its value does not say so."""
    if field.kind is FieldKind.DATE and field.help.en == "YYYY-MM-DD":
        return ""
    told = [f"{one.value} {one.zh}" for one in field.choices if one.en != one.value]
    return "; ".join([field.help.en, *([", ".join(told)] if told else [])])
