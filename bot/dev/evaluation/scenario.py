"""A scenario: one TOML file with people, their messages and presses, and the effects that must or must not happen.

Parsing is strict: an unknown name, person or field is an error that names the file and the place."""

from __future__ import annotations

import tomllib
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from bot.agent.limits import StopReason
from bot.core.errors import CountersignError
from bot.dev.mailbox import Fault
from bot.dev.workspace.world import read_world
from tools.catalog import TOOLS

Category = Literal[
    "main", "look_up", "decision", "mail", "injection", "impersonation", "loop", "cycle", "wrong_tool", "malformed",
    "long_observation", "early_final", "invented", "overclaim", "risky", "cut_off", "filtered", "model_down",
    "broken_tool", "missing", "ambiguous", "expired", "double", "limits", "conversation",
]  # fmt: skip
"""Topic of a scenario."""
KINDS = frozenset(kind for tool in TOOLS for kind in tool.effects.values())
"""Kinds of effects in the world."""
TaskName = Literal[
    "leave", "leave_after_question", "leave_in_two_parts", "moved_leave", "approve_in_words", "to_do", "mail",
    "expense", "status",
]  # fmt: skip
"""Tasks that people want done, and whose cost is measured."""
Style = Literal["native", "text", "json"]
Setting = Literal[
    "max_steps",
    "run_tokens",
    "run_seconds",
    "think_tool",
    "approval_ttl_hours",
    "history_tokens",
    "finance_threshold",
    "openai_vision",
]
EVERY_STYLE: tuple[Style, ...] = ("native", "text", "json")
get_world = cache(read_world)  # that of the demo people, which nobody changes here


class ScenarioError(CountersignError):
    """Raised when a scenario cannot be used; the message names the file, the place in it and the problem."""


class ScenarioPart(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ScenarioPerson(ScenarioPart):
    """A person in addition to the people of the demo."""

    name: str = Field(pattern=r"^[a-z][a-z0-9]*$")
    """Handle by which the scenario names the person."""
    real_name: str
    display_name: str = ""
    title: str = ""
    manager: str = ""
    """Handle of the manager."""
    roles: tuple[str, ...] = ()
    locale: str = "zh-CN"


class HandbookPage(ScenarioPart):
    """A file of the company's handbook; such files replace the demo's."""

    file: str = Field(pattern=r"^[\w.-]+\.md$")
    text: str


class ScenarioFile(ScenarioPart):
    """A picture that a person sends."""

    name: str
    text: str = ""
    """Text in the picture's bytes; another text makes another file."""


class ScenarioAct(ScenarioPart):
    """One act: somebody writes or presses, time passes, or the mail server fails."""

    who: str = ""
    """Handle of the acting person."""
    says: str = ""
    where: str = ""
    """Name of a channel; empty for the DM with the bot."""
    files: tuple[ScenarioFile, ...] = ()
    """Files sent with the message."""
    thread: bool = False
    """Whether the message goes into the thread of the last message in that place."""
    presses: str = ""
    """Choice of the button, e.g. `confirm`, `approve`; `anew` is *Try again* under a stop."""
    card: str = ""
    """Words on the card; empty for the newest card with this button."""
    of: str = ""
    """Handle of the person whose DM holds the card, unless it is the presser's own. Such a press is forged."""
    again: bool = False
    """Whether to press the last pressed card again as it looked then, like on a screen that was not repainted."""
    times: int = Field(1, ge=1, le=5)
    """Number of presses, all at once."""
    form: dict[str, str] = {}
    """Values for the dialog that the press opens; people by handle."""
    hours: float = Field(0, ge=0)
    """Hours that pass."""
    mailbox: tuple[Fault, ...] = ()
    """Faults of the next mails."""
    task: TaskName | None = None
    """Task that the act belongs to. Model calls and tokens of a task's acts are measured together."""

    @model_validator(mode="after")
    def _require_one_action(self) -> Self:
        done = [name for name in ("says", "presses", "hours", "mailbox") if getattr(self, name)]
        if len(done) != 1:
            raise ValueError(f"an act is one of says, presses, hours, mailbox, not {' and '.join(done) or 'none'}")
        if done[0] in ("says", "presses") and not self.who:
            raise ValueError(f"who {done[0]} it?")
        if self.files and not self.says:
            raise ValueError("files come with words")
        return self


class ExpectedEffect(ScenarioPart):
    """An expected effect. Omitted values may be anything."""

    kind: str
    """One of `KINDS`."""
    by: str = ""
    """Handle of the person who causes the effect."""
    request: str = ""
    to: str = ""
    """Handles, separated by commas, of the people who get a mail, a task or a copy, or who stand in."""
    fields: dict[str, str] = {}
    """Exact values of a form; for any other effect, text that each field (`subject`, `body`, `opinion`, …) contains."""

    @field_validator("kind")
    @classmethod
    def _require_known_kind(cls, kind: str) -> str:
        if kind not in KINDS:
            raise ValueError(f"there is no effect {kind!r}; there are {', '.join(sorted(KINDS))}")
        return kind


class ExpectedEvidence(ScenarioPart):
    """Texts that people must have been told, or must not have been told."""

    has: tuple[str, ...] = ()
    """Texts that must each occur in some message of the bot."""
    lacks: tuple[str, ...] = ()
    """Texts that must not occur in any answer."""
    private: tuple[str, ...] = ()
    """Texts that must not occur in any message of the bot in a channel."""
    unverified: tuple[str, ...] = ()
    """Texts that must each be marked as not verified."""
    stopped: StopReason | None = None
    """Stop reason of the last run."""
    refused: tuple[str, ...] = ()
    """Codes of refused presses that must each occur at least once."""


class ScenarioCall(ScenarioPart):
    """A tool call independent of any style."""

    tool: str
    args: dict[str, Any] = {}
    reason: str = "…"


class ScenarioReply(ScenarioPart):
    """One reply of a scripted model, to be formatted in the style under test."""

    say: str = ""
    """Text of the final answer."""
    tool: str = ""
    args: dict[str, Any] = {}
    reason: str = "…"
    calls: tuple[ScenarioCall, ...] = ()
    """Several tool calls in one reply."""
    raw: str | None = None
    """Raw text of the reply, given unchanged."""
    broken: bool = False
    """Whether the call's arguments are cut off before their end."""
    invents: str = ""
    """Observation that the model invents after its call."""
    finish: Literal["", "length", "content_filter"] = ""
    refusal: str = ""
    down: bool = False
    """Whether the endpoint does not answer."""
    refused: bool = False
    """Whether the endpoint refuses the conversation."""

    @model_validator(mode="after")
    def _require_one_form(self) -> Self:
        forms = ("say", "tool", "calls", "refusal", "down", "refused")
        used = [name for name in forms if getattr(self, name)] + (["raw"] if self.raw is not None else [])
        if len(used) != 1 and not (self.finish and not used):
            raise ValueError(f"a reply is one of {', '.join(forms)}, raw, not {' and '.join(used) or 'none'}")
        return self


class Scenario(ScenarioPart):
    name: str
    """Name of its file without the ending."""
    title: str = Field(min_length=3)
    language: Literal["zh", "en"]
    category: Category
    today: date = date(2026, 11, 23)
    only: Literal["", "script"] = ""
    """`script` limits the scenario to its scripted model: it is about that model's mistakes, and means nothing with
    another."""
    styles: tuple[Style, ...] = Field(EVERY_STYLE, min_length=1)
    """Styles in which its script can be written."""
    person: tuple[ScenarioPerson, ...] = ()
    handbook: tuple[HandbookPage, ...] = ()
    setting: dict[Setting, str] = {}
    act: tuple[ScenarioAct, ...] = Field(min_length=1)
    expect: tuple[ExpectedEffect, ...] = ()
    """Expected effects: exactly these, in any order."""
    forbid: tuple[ExpectedEffect, ...] = ()
    evidence: ExpectedEvidence = ExpectedEvidence()
    reply: tuple[ScenarioReply, ...] = ()

    @property
    def handles(self) -> frozenset[str]:
        return frozenset({one.name for one in get_world().people} | {one.name for one in self.person})

    @model_validator(mode="after")
    def _require_known_names(self) -> Self:
        used = [(f"act {number}", name) for number, act in enumerate(self.act, 1) for name in (act.who, act.of)]
        for label, wanted in (("expect", self.expect), ("forbid", self.forbid)):
            for number, one in enumerate(wanted, 1):
                used += [(f"{label} {number}", name) for name in (one.by, *one.to.split(","))]
        used += [("person", one.manager) for one in self.person]
        for where, name in used:
            if name and name not in self.handles:
                raise ValueError(
                    f"{where}: there is nobody called {name!r}; there are {', '.join(sorted(self.handles))}"
                )
        rooms = {room.name for room in get_world().rooms if room.kind == "channel"}
        if unknown := {act.where for act in self.act if act.where} - rooms:
            raise ValueError(f"there is no channel {unknown.pop()!r}; there is {', '.join(rooms)}")
        if self.only == "script" and not self.reply:
            raise ValueError('it says only = "script" and has no [[reply]]')
        return self


def read_scenario(path: Path) -> Scenario:
    """Read one file. Raises ScenarioError."""
    try:
        return parse_scenario(path.stem, path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ScenarioError(f"{path.name} cannot be read: {error}") from error


def parse_scenario(name: str, text: str) -> Scenario:
    """Parse a scenario. Raises ScenarioError, which names the place and the problem."""
    try:
        return Scenario.model_validate({"name": name, **tomllib.loads(text)})
    except tomllib.TOMLDecodeError as error:
        raise ScenarioError(f"{name}.toml is not TOML: {error}") from error
    except ValidationError as error:
        told = list[str]()
        for one in error.errors(include_url=False):  # as `act 2 says: …`, counted from 1
            where = " ".join(str(part + 1) if isinstance(part, int) else part for part in one["loc"])
            told.append(f"{where}: {one['msg'].removeprefix('Value error, ')}".removeprefix(": "))
        raise ScenarioError(f"{name}.toml: {'; '.join(told)}") from error


def read_scenarios(folder: Path | None = None) -> tuple[Scenario, ...]:
    """Read the scenarios of a folder, or the shipped ones, sorted by name. Raises ScenarioError, also if there are
    none."""
    folder = folder or Path(__file__).with_name("scenarios")
    if not folder.is_dir():
        raise ScenarioError(f"{folder} is not a folder")
    if not (files := sorted(folder.glob("*.toml"))):
        raise ScenarioError(f"there is no scenario (*.toml) in {folder}")
    return tuple(map(read_scenario, files))
