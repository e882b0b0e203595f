"""What a tool is: its card, what it may use, what the gate enforces of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Any

from pydantic import BaseModel, RootModel
from pydantic.json_schema import GenerateJsonSchema

from tools.effect_parts import EffectParts
from tools.handbook.folder import Handbook
from tools.ports import CardService, Directory, Mailer, TextRenderer
from tools.spec import Caller, Gate, Privacy, Proposal, TextRef, ToolOutcome
from tools.workflow.engine.port import Engine
from tools.workflow.process.calendar import WorkCalendar


def render_key(note: TextRef, language: str, /) -> str:
    """Where nobody reads: the key instead of words."""
    return note.key


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolServices:
    """Everything outside that tools work with, passed in."""

    directory: Directory
    engine: Engine
    mailer: Mailer
    cards: CardService | None = None
    render_text: TextRenderer = render_key
    calendar: WorkCalendar = field(default_factory=WorkCalendar)
    """The company's: the one that the engine counts by."""
    handbook: Handbook = field(default_factory=Handbook)


@dataclass(frozen=True, slots=True)
class ToolContext:
    """One use of a tool."""

    services: ToolServices
    caller: Caller
    now: datetime
    """Aware, in the caller's time zone."""
    _: KW_ONLY
    idempotency_key: str = ""
    """Idempotency key of the effect; the same key never has two effects in the engine."""
    parts: EffectParts = field(default_factory=EffectParts)
    """Which parts of the effect are done, for a tool whose effect has several."""


@dataclass(frozen=True, slots=True)
class ToolAlias:
    """As whose call the calls of a tool are kept, shown and run."""

    tool: str
    to_args: Callable[[Mapping[str, Any]], dict[str, Any]]
    """From the arguments of the one to those of the other, as far as they can be read."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool card: what the model reads and what the gate enforces."""

    name: str
    purpose: str
    use_when: str
    avoid_when: str
    args: type[BaseModel]
    returns: str
    """Told to who has just found the tool; a result says what it is by its names."""
    errors: Mapping[str, str]
    """code → what the model should do about it: told with the error."""
    example: Mapping[str, Any]
    run: Callable[[ToolContext, Any], Awaitable[ToolOutcome]]
    gate: Gate = Gate.NONE
    prepare: Callable[[ToolContext, Any], Awaitable[Proposal]] | None = None
    """Gated tools only: validate, resolve names to ids, describe. No effect."""
    stored_args: type[BaseModel] | None = None
    """Gated tools only: the model of `Proposal.args` plus what the pressed choice adds; `run` receives this."""
    check: Callable[[ToolContext, Any], Awaitable[None]] | None = None
    """Gated tools with dialogs: validates `stored_args` arguments without any effect, so that a dialog can name the
    wrong field before it closes. Raises `ToolError` with `field`."""
    authorize: Callable[[ToolContext, Any], Awaitable[None]] | None = None
    """Gated tools whose presser needs more than to be named on the card: whether the rules, as they are now, still let
    them. Asked before a press decides anything. Raises `ToolError`, whose words the presser reads."""
    also: frozenset[str] = frozenset()
    """Further codes it may raise: their advice stands on another card, or only who presses meets them."""
    is_idempotent: bool = True
    """True: `run` with the same `ToolContext.idempotency_key` has one effect however often it is called. False: begun
    twice may be done twice."""
    is_cacheable: bool = True
    """Of a tool that only reads: asked the same again in the same run, before anything was changed, it would give the
    same, so it is not asked. False: it does something, or what it gives does not keep for a run."""
    privacy: Privacy | None = None
    """How private what it plans, gives or says of an error can be at most; a plan or an outcome may be less so and says
    it. None: nobody has said, so it counts as private."""
    server: str = ""
    """Whose tool it is: a server outside this program, whose words stand on the card; empty for our own."""
    alias_of: ToolAlias | None = None
    """Of a tool that is another one in other words; None: its calls are its own."""
    is_rare: bool = False
    """Not asked for every day: the model finds it by `find_tools`, or calls it by its name."""

    @property
    def effect_tag(self) -> str:
        """What a call does, in a word that the rules explain: it brings a card, or only reads; empty: it acts at
        once."""
        if self.gate is not Gate.NONE:
            return "[card]"
        return "[read]" if self.is_cacheable else ""

    @property
    def description(self) -> str:
        """What the model reads of it besides its arguments."""
        return " ".join(
            filter(None, (self.effect_tag, self.purpose, f"Use: {self.use_when}", f"Not: {self.avoid_when}"))
        )

    @property
    def schema(self) -> Mapping[str, Any]:
        """JSON Schema of the arguments."""
        return _build_schema(self.args)


class _UntitledSchema(GenerateJsonSchema):
    """Without titles: they say in other letters what the names say, with every message."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


UNSAID = frozenset(
    {
        *("title", "default", "additionalProperties", "minLength", "maxLength", "minItems", "maxItems"),
        *("minimum", "maximum"),
    }
)
"""Of our own schemas: what is checked, and told when it is wrong."""


@lru_cache(maxsize=512)
def _build_schema(args: type[BaseModel]) -> Mapping[str, Any]:
    schema = args.model_json_schema(schema_generator=_UntitledSchema)
    return (
        schema
        if issubclass(args, RootModel)
        else {name: one for name, one in _strip_schema(schema).items() if one != {}}
    )


def _strip_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Without what the model need not read. Names of properties are no keywords."""
    inner = {name: _strip_schema(one) for name, one in schema.items() if isinstance(one, dict) and name not in NAMED}
    named = {name: {key: _strip_schema(one) for key, one in schema[name].items()} for name in NAMED if name in schema}
    return {name: {**inner, **named}.get(name, one) for name, one in schema.items() if name not in UNSAID}


NAMED = ("properties", "$defs")
"""Keywords whose members have names of their own."""
