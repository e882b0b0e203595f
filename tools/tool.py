"""What a tool is: its card, what it may use, what the gate enforces of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema

from tools.library.folder import Handbook
from tools.parts import MemoryParts, Parts
from tools.ports import Cards, Directory, Mailer, Words
from tools.spec import Caller, Gate, Note, Outcome, Plan, Privacy
from tools.workflow.calendar import Calendar
from tools.workflow.engine import Engine


def unsaid(note: Note, language: str, /) -> str:
    """Where nobody reads: the key instead of words."""
    return note.key


@dataclass(frozen=True, slots=True)
class Desk:
    """Everything outside that tools work with, passed in."""

    directory: Directory
    engine: Engine
    mailer: Mailer
    cards: Cards | None = None
    words: Words = unsaid
    calendar: Calendar = field(default_factory=Calendar)
    """The company's: the one that the engine counts by."""
    handbook: Handbook = field(default_factory=Handbook)


@dataclass(frozen=True, slots=True)
class Use:
    """One use of a tool."""

    desk: Desk
    caller: Caller
    now: datetime
    """Aware, in the caller's time zone."""
    key: str = ""
    """Idempotency key of the effect; the same key never has two effects in the engine."""
    parts: Parts = field(default_factory=MemoryParts)
    """Which parts of the effect are done, for a tool whose effect has several."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool card: what the model reads and what the gate enforces."""

    name: str
    purpose: str
    use_when: str
    avoid_when: str
    args: type[BaseModel]
    returns: str
    errors: Mapping[str, str]
    """code → what the model should do about it: told with the error."""
    example: Mapping[str, Any]
    run: Callable[[Use, Any], Awaitable[Outcome]]
    gate: Gate = Gate.NONE
    prepare: Callable[[Use, Any], Awaitable[Plan]] | None = None
    """Gated tools only: validate, resolve names to ids, describe. No effect."""
    stored: type[BaseModel] | None = None
    """Gated tools only: the model of `Plan.args` plus what the pressed choice adds; `run` receives this."""
    check: Callable[[Use, Any], Awaitable[None]] | None = None
    """Gated tools with dialogs: validates `stored` arguments without any effect, so that a dialog can name the wrong
    field before it closes. Raises `ToolError` with `field`."""
    authorize: Callable[[Use, Any], Awaitable[None]] | None = None
    """Gated tools whose presser needs more than to be named on the card: whether the rules, as they are now, still let
    them. Asked before a press decides anything. Raises `ToolError`, whose words the presser reads."""
    also: frozenset[str] = frozenset()
    """Further codes it may raise: their advice stands on another card, or only who presses meets them."""
    repeatable: bool = True
    """True: `run` with the same `Use.key` has one effect however often it is called. False: begun twice may be done
    twice."""
    cached: bool = True
    """Of a tool that only reads: asked the same again in the same run, before anything was changed, it would give the
    same, so it is not asked. False: it does something, or what it gives does not keep for a run."""
    privacy: Privacy | None = None
    """How private what it plans, gives or says of an error can be at most; a plan or an outcome may be less so and says
    it. None: nobody has said, so it counts as private."""
    server: str = ""
    """Whose tool it is: a server outside this program, whose words stand on the card; empty for our own."""

    @property
    def schema(self) -> Mapping[str, Any]:
        """JSON Schema of the arguments."""
        return _schema(self.args)


class _Untitled(GenerateJsonSchema):
    """Without titles: they say in other letters what the names say, with every message."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


@lru_cache(maxsize=512)
def _schema(args: type[BaseModel]) -> Mapping[str, Any]:
    schema = args.model_json_schema(schema_generator=_Untitled)
    for one in (schema, *schema.get("$defs", {}).values()):
        one.pop("title", None)
    return schema
