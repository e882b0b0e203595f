"""A scenario: one TOML file with people, what they write and press, what must come of it, and what must not.

Everything is strict: an unknown name, person or field is an error that says in which file and where it stands.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from datetime import date
from importlib import resources
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from bot.agent.limits import StopReason
from bot.core.errors import CountersignError
from bot.local.mailbox import Fault
from bot.local.workspace.world import World, read_world

Category = Literal[
    "main", "look_up", "decision", "mail", "injection", "impersonation", "loop", "cycle", "wrong_tool", "malformed",
    "long_observation", "early_final", "invented", "overclaim", "risky", "cut_off", "filtered", "model_down",
    "broken_tool", "missing", "ambiguous", "expired", "double", "limits", "conversation",
]  # fmt: skip
"""What a scenario is about."""
Kind = Literal[
    "started", "resubmitted", "withdrawn", "approved", "rejected", "returned", "transferred", "added", "urged",
    "commented", "copied", "mailed", "absent", "back",
]  # fmt: skip
"""What can happen in the world."""
TaskName = Literal[
    "leave", "leave_after_question", "leave_in_two_parts", "moved_leave", "approve_in_words", "to_do", "mail",
    "expense", "status",
]  # fmt: skip
"""What people want done, whose cost is measured."""
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


class ScenarioError(CountersignError):
    """A scenario cannot be used; the message names the file, the place in it, and what is wrong."""


class ScenarioPart(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ScenarioPerson(ScenarioPart):
    """Somebody beside the people of the demo."""

    name: str = Field(pattern=r"^[a-z][a-z0-9]*$")
    """The handle by which the scenario calls them."""
    real_name: str
    display_name: str = ""
    title: str = ""
    manager: str = ""
    """A handle."""
    roles: tuple[str, ...] = ()
    locale: str = "zh-CN"


class HandbookPage(ScenarioPart):
    """A file of the company's handbook, in place of the demo's."""

    file: str = Field(pattern=r"^[\w.-]+\.md$")
    text: str


class ScenarioFile(ScenarioPart):
    """A picture that somebody sends."""

    name: str
    text: str = ""
    """Stands in its bytes; another text makes another file."""


class ScenarioAct(ScenarioPart):
    """One thing that happens: somebody writes or presses, time passes, or the mail server fails."""

    who: str = ""
    """A handle."""
    says: str = ""
    where: str = ""
    """Name of a channel; empty: the DM with the bot."""
    files: tuple[ScenarioFile, ...] = ()
    """What comes with the words."""
    thread: bool = False
    """In the thread of the last message there."""
    presses: str = ""
    """The choice, e.g. `confirm`, `approve`; `anew` is *Try again* under a stop."""
    card: str = ""
    """Words that the card shows; empty: the newest one with this button."""
    of: str = ""
    """The handle of whose DM the card is in, where it is not the presser's own: the press is then forged."""
    again: bool = False
    """The card that was pressed last, as it then looked: on a screen that was not repainted."""
    times: int = Field(1, ge=1, le=5)
    """So often, all at once."""
    form: dict[str, str] = {}
    """What is filled in where the press opens a dialog; people by handle."""
    hours: float = Field(0, ge=0)
    """So much time passes."""
    mailbox: tuple[Fault, ...] = ()
    """How the next mails fail."""
    task: TaskName | None = None
    """What it is part of: model calls and tokens of these acts are measured together."""

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
    """An effect, as far as the scenario says what it should be. What is left out may be anything."""

    kind: Kind
    by: str = ""
    """A handle."""
    request: str = ""
    to: str = ""
    """Handles with commas between: who gets a mail, a task, a copy, or stands in."""
    fields: dict[str, str] = {}
    """Of a form: exact values. Of anything else: what the text has to contain (`subject`, `body`, `opinion`, …)."""


class ExpectedEvidence(ScenarioPart):
    """What people must have been told, or must not have been."""

    has: tuple[str, ...] = ()
    """Each stands in something that the bot said."""
    lacks: tuple[str, ...] = ()
    """None stands in any answer."""
    private: tuple[str, ...] = ()
    """None stands in anything that the bot has said in a channel."""
    unverified: tuple[str, ...] = ()
    """Each is marked as not verified."""
    stopped: StopReason | None = None
    """Why the last run stopped."""
    refused: tuple[str, ...] = ()
    """Codes of the refused presses, each at least once."""


class ScenarioCall(ScenarioPart):
    """A tool call in no style's form."""

    tool: str
    args: dict[str, Any] = {}
    reason: str = "…"


class ScenarioReply(ScenarioPart):
    """One reply of a scripted model, rendered into the style under test."""

    say: str = ""
    """The final answer."""
    tool: str = ""
    args: dict[str, Any] = {}
    reason: str = "…"
    calls: tuple[ScenarioCall, ...] = ()
    """Several calls at once."""
    raw: str | None = None
    """Exactly this text."""
    broken: bool = False
    """The call's arguments are cut in the middle."""
    invents: str = ""
    """An observation that the model makes up behind its call."""
    finish: Literal["", "length", "content_filter"] = ""
    refusal: str = ""
    down: bool = False
    """The endpoint does not answer."""
    refused: bool = False
    """The endpoint will not take the conversation."""

    @model_validator(mode="after")
    def _require_one_form(self) -> Self:
        forms = ("say", "tool", "calls", "refusal", "down", "refused")
        used = [name for name in forms if getattr(self, name)] + (["raw"] if self.raw is not None else [])
        if len(used) != 1 and not (self.finish and not used):
            raise ValueError(f"a reply is one of {', '.join(forms)}, raw, not {' and '.join(used) or 'none'}")
        return self


class Scenario(ScenarioPart):
    name: str
    """Its file's, without the ending."""
    title: str = Field(min_length=3)
    language: Literal["zh", "en"]
    category: Category
    today: date = date(2026, 11, 23)
    only: Literal["", "script"] = ""
    """`script`: it is about what its scripted model does wrong, and means nothing with another one."""
    styles: tuple[Style, ...] = EVERY_STYLE
    """In which its script can be written."""
    person: tuple[ScenarioPerson, ...] = ()
    handbook: tuple[HandbookPage, ...] = ()
    setting: dict[Setting, str] = {}
    act: tuple[ScenarioAct, ...] = Field(min_length=1)
    expect: tuple[ExpectedEffect, ...] = ()
    """Exactly these effects, in any order."""
    forbid: tuple[ExpectedEffect, ...] = ()
    evidence: ExpectedEvidence = ExpectedEvidence()
    reply: tuple[ScenarioReply, ...] = ()

    @property
    def handles(self) -> frozenset[str]:
        return frozenset({one.name for one in _load_world().people} | {one.name for one in self.person})

    @field_validator("styles")
    @classmethod
    def _require_style(cls, styles: tuple[Style, ...]) -> tuple[Style, ...]:
        if not styles:
            raise ValueError("it needs at least one style")
        return styles

    @model_validator(mode="after")
    def _require_known_names(self) -> Self:
        for where, name in self._list_used_handles():
            if name not in self.handles:
                raise ValueError(
                    f"{where}: there is nobody called {name!r}; there are {', '.join(sorted(self.handles))}"
                )
        rooms = {name for _, name in _load_world().channels}
        if unknown := {act.where for act in self.act if act.where} - rooms:
            raise ValueError(f"there is no channel {unknown.pop()!r}; there is {', '.join(rooms)}")
        if self.only == "script" and not self.reply:
            raise ValueError('it says only = "script" and has no [[reply]]')
        return self

    def _list_used_handles(self) -> Iterator[tuple[str, str]]:
        """Everybody who is named, and where."""
        for number, act in enumerate(self.act, 1):
            yield from ((f"act {number}", name) for name in (act.who, act.of) if name)
        for label, wanted in (("expect", self.expect), ("forbid", self.forbid)):
            for number, one in enumerate(wanted, 1):
                yield from ((f"{label} {number}", name) for name in (one.by, *one.to.split(",")) if name)
        yield from (("person", one.manager) for one in self.person if one.manager)


def _load_world() -> World:
    return read_world()


def read_scenario(path: Path) -> Scenario:
    """One file. Raises ScenarioError."""
    try:
        return parse_scenario(path.stem, path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ScenarioError(f"{path.name} cannot be read: {error}") from error


def parse_scenario(name: str, text: str) -> Scenario:
    """A scenario from its text. Raises ScenarioError, which names the place and says what is wrong there."""
    try:
        return Scenario.model_validate({"name": name, **tomllib.loads(text)})
    except tomllib.TOMLDecodeError as error:
        raise ScenarioError(f"{name}.toml is not TOML: {error}") from error
    except ValidationError as error:
        wrong = "; ".join(_format_validation_error(one["loc"], one["msg"]) for one in error.errors(include_url=False))
        raise ScenarioError(f"{name}.toml: {wrong}") from error


def _format_validation_error(place: Sequence[int | str], message: str) -> str:
    """`act 2 says: …`, counted from 1 as people count."""
    where = " ".join(str(part + 1) if isinstance(part, int) else part for part in place)
    return f"{where}: {message.removeprefix('Value error, ')}".removeprefix(": ")


def read_scenarios(folder: Path | None = None) -> tuple[Scenario, ...]:
    """Those of a folder, or the shipped ones, by name. Raises ScenarioError, also when there is none."""
    if folder is not None and not folder.is_dir():
        raise ScenarioError(f"{folder} is not a folder")
    with resources.as_file(resources.files("bot.evaluation")) as package:
        files = sorted((folder or package / "scenarios").glob("*.toml"))
        if not files:
            raise ScenarioError(f"there is no scenario (*.toml) in {folder}")
        return tuple(map(read_scenario, files))
