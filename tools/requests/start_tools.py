"""One start tool per process, made from its form: `start_leave`, `start_expense`.

Each one is an alias of `start_process`: the same code proposes the request, and calls are stored, shown and run as
calls of `start_process`. A tool is rebuilt when another version of its process is deployed."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pydantic import RootModel, model_validator

from tools.requests.processes import START_PROCESS, StartProcessArgs, prepare_start_process
from tools.spec import Proposal
from tools.tool import Tool, ToolAlias, ToolContext
from tools.workflow.engine.port import Engine
from tools.workflow.process.definition import Process
from tools.workflow.process.forms import DAYS, NUMBERS, PERSONS, FieldKind

START = "start_"
MAX_TOOLS = 6
"""Most processes with a start tool of their own; `start_process` starts the others."""
NAME = re.compile(r"[A-Za-z0-9_-]{1,58}")
"""Keys of processes that give a tool name that endpoints take."""
BY_TABLE = "Only if they named somebody; else left out, the table decides."
LENGTH = "Working days, in place of {end}; halves as 0.5."


FRESH_S = 3.0
"""Seconds during which deployments are not checked again, so that a message costs no call of the engine."""


class StartTools(dict[str, Tool]):
    """The start tools of the deployed processes, by name."""

    def __init__(self) -> None:
        super().__init__()
        self._tools_by_version: dict[tuple[str, str], Tool] = {}
        self.is_complete = False
        """Whether every process has a start tool."""
        self._looked_s: float | None = None
        self.change_count = 0
        """Number of changes of the deployed processes."""

    async def refresh_tools(self, engine: Engine) -> None:
        """Load the deployed processes, unless they were checked a moment ago."""
        now = asyncio.get_running_loop().time()
        if self._looked_s is not None and now - self._looked_s < FRESH_S:
            return
        processes = await engine.list_processes()
        self._looked_s = now
        named = [one for one in processes if NAME.fullmatch(one.key) and START + one.key != START_PROCESS.name]
        chosen = {one.version: one for one in named[:MAX_TOOLS]}
        is_complete = len({one.key for one in chosen.values()}) == len(processes)
        if chosen.keys() == self._tools_by_version.keys() and is_complete == self.is_complete:
            return
        self.change_count += 1
        self._tools_by_version = {
            version: self._tools_by_version.get(version) or build_start_tool(one) for version, one in chosen.items()
        }
        self.clear()
        self.update({tool.name: tool for tool in self._tools_by_version.values()})
        self.is_complete = is_complete


def build_start_tool(process: Process) -> Tool:
    form, key = process.form, process.key
    form_schema = build_form_schema(process)

    class StartFormArgs(RootModel[dict[str, Any]]):
        @model_validator(mode="after")
        def require_valid_form(self) -> StartFormArgs:
            _build_start_args(key, self.root)
            return self

        @classmethod
        def model_json_schema(cls, *args: Any, **kwargs: Any) -> dict[str, Any]:
            return form_schema

    async def prepare_start_tool(context: ToolContext, args: StartFormArgs) -> Proposal:
        return await prepare_start_process(context, _build_start_args(key, args.root))

    rules = " ".join(f"{rule.words.en[:1].upper()}{rule.words.en[1:]}." for rule in form.rules)
    return replace(
        START_PROCESS,
        name=START + key,
        purpose=f"Start a request: {form.name.en} ({form.name.zh}). {form.purpose.en}.{' ' if rules else ''}{rules}",
        use_when="They want it.",
        avoid_when="Something required is unknown: ask for all of it.",
        args=StartFormArgs,
        example={},
        prepare=prepare_start_tool,
        alias_of=ToolAlias(
            START_PROCESS.name, lambda given: {"process": key, "form": _extract_form_fields(key, given)}
        ),
    )


def _build_start_args(key: str, given: Mapping[str, Any]) -> StartProcessArgs:
    return StartProcessArgs.model_validate({"process": key, "form": _extract_form_fields(key, given)})


def _extract_form_fields(key: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The form's fields, also from the nested form that `start_process` takes."""
    if isinstance(form := given.get("form"), dict) and given.get("process", key) == key:
        given = {**{name: one for name, one in given.items() if name not in ("process", "form")}, **form}
    return dict(given)


def build_form_schema(process: Process) -> dict[str, Any]:
    form = process.form
    properties, required = dict[str, Any](), list[str]()
    for field in form.fields:
        schema: dict[str, Any] = {"type": "number" if field.kind in NUMBERS else "string"}
        if field.kind is FieldKind.DATE:
            schema["format"] = "date"
        if field.options:
            schema["enum"] = [option.value for option in field.options]
        if field.kind in PERSONS and field.name in process.deciding_names:
            schema["description"] = BY_TABLE
        elif (field.kind, field.help.en) != (FieldKind.DATE, "YYYY-MM-DD"):
            # The form's own help text, with the meaning of each option whose value does not tell it.
            told = ", ".join(f"{one.value} {one.zh}" for one in field.choices if one.en != one.value)
            if said := "; ".join([field.help.en, *filter(None, [told])]):
                schema["description"] = said
        properties[field.name] = schema
        if form.days and field.name == form.days.end and form.can_take_days:
            properties[DAYS] = {"type": "number", "description": LENGTH.format(end=field.name)}
        elif field.required and not field.default and field.name not in process.deciding_names:
            required.append(field.name)
    return {"type": "object", "properties": properties, **({"required": required} if required else {})}
