"""The types of tools: a tool's card with its arguments, the services it uses, the checks of the gate; and the pages of
long results."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Any, TypeVar

from pydantic import BaseModel, RootModel, model_validator
from pydantic.json_schema import GenerateJsonSchema

from tools.effect_parts import EffectParts
from tools.handbook.folder import Handbook
from tools.outside import Outside
from tools.people.names import get_person_name
from tools.ports import CardService, Directory, TextRenderer
from tools.spec import (
    AttachedFile,
    Caller,
    EffectPlace,
    FrozenModel,
    Gate,
    Offer,
    Privacy,
    Proposal,
    ReceiptLine,
    TextRef,
    ToolError,
    ToolOutcome,
)
from tools.workflow.engine.port import Engine
from tools.workflow.process.calendar import WorkCalendar


def render_key(value: object, language: str, /) -> str:
    """The text key instead of a sentence, for contexts without readers."""
    return value.key if isinstance(value, TextRef) else str(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolServices:
    """Everything from outside that tools use, passed in."""

    directory: Directory
    engine: Engine
    cards: CardService | None = None
    render_text: TextRenderer = render_key
    calendar: WorkCalendar = field(default_factory=WorkCalendar)
    """The company's calendar, which the engine uses too."""
    handbook: Handbook = field(default_factory=Handbook)


@dataclass(frozen=True, slots=True)
class ToolContext:
    """One use of a tool."""

    services: ToolServices
    caller: Caller
    now: datetime
    """The present moment, aware, in the caller's time zone."""
    _: KW_ONLY
    files: tuple[AttachedFile, ...] = ()
    """Files that the caller has sent in this conversation and that are on no request yet."""
    idempotency_key: str = ""
    """Key of this use. The engine carries out at most one effect for a key."""
    parts: EffectParts = field(default_factory=EffectParts)
    """The progress of an effect with several parts."""
    outside: Outside | None = None
    """The way out, for the effect of a tool with `EffectPlace.OUTSIDE` that a person has let run; otherwise None."""

    def require_outside(self) -> Outside:
        """Return the way out. Raises `ToolError` if there is none."""
        if self.outside is None:
            raise ToolError("tool_failed", "There is no way out here: only an effect that was let run has one.")
        return self.outside

    async def get_person_name(self, person: str) -> str:
        """The caller's name for the person with this id."""
        return await get_person_name(self.services.directory, person, self.caller.person.language)


@dataclass(frozen=True, slots=True)
class ToolAlias:
    """The tool under whose name the calls of another tool are stored, shown and run."""

    tool: str
    to_args: Callable[[Mapping[str, Any]], dict[str, Any]]
    """Converts the arguments of the alias to those of `tool`, as far as they are readable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A tool card: the text that the model reads, and the conditions that the gate enforces."""

    name: str
    purpose: str
    use_when: str
    avoid_when: str
    args: type[BaseModel]
    returns: str
    """The shape of a result, for a model that has just found the tool; a result itself is explained by its names."""
    errors: Mapping[str, str]
    """Error code → advice for the model, sent with the error."""
    example: Mapping[str, Any]
    run: Callable[[ToolContext, Any], Awaitable[ToolOutcome]]
    gate: Gate = Gate.NONE
    effect_place: EffectPlace | None = None
    """The place of the effect; set for gated tools only, and required there."""
    prepare: Callable[[ToolContext, Any], Awaitable[Proposal]] | None = None
    """For gated tools only: validates, resolves names to ids, and builds the proposal. Has no effect."""
    stored_args: type[BaseModel] | None = None
    """For gated tools only: the type of `Proposal.args` plus the pressed button's arguments; `run` gets these."""
    check: Callable[[ToolContext, Any], Awaitable[None]] | None = None
    """For gated tools with dialogs: validates `stored_args` without any effect, so that a dialog can mark the wrong
    field before it closes. Raises `ToolError` with `field`."""
    authorize: Callable[[ToolContext, Any], Awaitable[None]] | None = None
    """For gated tools whose presser needs more than a place on the card: checks that the current rules still allow the
    presser. Runs before a press decides anything. Raises `ToolError`, whose sentence the presser reads."""
    also: frozenset[str] = frozenset()
    """Further error codes of the tool. Another tool card has their advice, or only pressers meet them."""
    is_idempotent: bool = True
    """Whether `run` with the same `ToolContext.idempotency_key` has one effect however often it is called. Otherwise
    the effect may happen twice if the tool is started twice."""
    is_cacheable: bool = True
    """For a tool that only reads: whether its result may be reused in the same run until something changes. False if
    the tool has an effect, or if its result may change during a run."""
    privacy: Privacy = Privacy.PRIVATE
    """The highest privacy of the tool's proposals, results and errors; a proposal or an outcome may state a lower
    one."""
    server: str = ""
    """The outside server that the tool belongs to, whose words stand on the tool card; empty for our own tools."""
    called_line: ReceiptLine | None = None
    """The receipt line of every call; for tools of servers without a gate, because nobody knows what they do."""
    alias_of: ToolAlias | None = None
    """The tool of which this one is an alias, or None."""
    effects: Mapping[str, str] = field(default_factory=dict)
    """For gated tools only: choice of the card → the change in the world that it may bring about. The evaluation
    watches for these changes, and nobody can authorise any other."""
    offer: Offer = Offer.ALWAYS
    needs: str = ""
    """The part of the installation without which the tool is not offered: `handbook` or `think`."""

    def __post_init__(self) -> None:
        if (self.gate is Gate.NONE) != (self.effect_place is None):
            raise ValueError(f"{self.name}: a tool with a gate, and no other, says where its effect lies")

    @property
    def effect_tag(self) -> str:
        """The effect of a call, as a word that the rules explain: the call opens a card, or only reads; empty if it
        acts at once."""
        if self.gate is not Gate.NONE:
            return "[card]"
        return "[read]" if self.is_cacheable else ""

    @property
    def description(self) -> str:
        """The tool card's text for the model, besides the arguments."""
        return " ".join(
            filter(None, (self.effect_tag, self.purpose, f"Use: {self.use_when}", f"Not: {self.avoid_when}"))
        )

    @property
    def schema(self) -> Mapping[str, Any]:
        """JSON Schema of the arguments."""
        return _build_schema(self.args)


class _UntitledSchema(GenerateJsonSchema):
    """A generator without titles, which only repeat the names in every message."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


UNSAID = frozenset(
    {
        *("title", "default", "additionalProperties", "minLength", "maxLength", "minItems", "maxItems"),
        *("minimum", "maximum"),
    }
)
"""Keywords left out of our own schemas; violations are still reported."""


@lru_cache(maxsize=512)
def _build_schema(args: type[BaseModel]) -> Mapping[str, Any]:
    schema = args.model_json_schema(schema_generator=_UntitledSchema)
    if issubclass(args, RootModel):
        return schema
    return {name: one for name, one in _strip_schema(schema).items() if one != {}}


def _strip_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema without the keywords that the model need not read. Names of properties are no keywords."""
    inner = {
        name: _strip_schema(one) for name, one in schema.items() if isinstance(one, dict) and name not in NAMED_MEMBERS
    }
    named = {
        name: {key: _strip_schema(one) for key, one in schema[name].items()} for name in NAMED_MEMBERS if name in schema
    }
    return {name: {**inner, **named}.get(name, one) for name, one in schema.items() if name not in UNSAID}


NAMED_MEMBERS = ("properties", "$defs")
"""Keywords whose members have names of their own."""


OTHER_NAMES = {
    "request": ("request_id", "id"),
    "process": ("process_key",),
    "name": ("request", "request_id", "process", "id"),
    "task": ("task_id", "request", "request_id", "id"),
    "tasks": ("requests",),
    "person": ("person_id", "name"),
    "people": ("persons", "names", "person"),
    "deputy": ("person", "name"),
    "absence": ("absence_id", "id"),
    "card": ("card_id", "id"),
    "start_date": ("first_day", "start", "from_date", "date", "day"),
    "end_date": ("last_day", "end", "to_date", "until"),
    "days": ("count",),
    "count": ("number",),
    "to": ("recipient", "recipients", "person", "people"),
    "opinion": ("draft", "remark"),
    "decision": ("meant",),
    "text": ("comment", "body"),
    "body": ("text", "content"),
}
"""The names of arguments that tools offer, one for each thing → other names that they accept: names of earlier
versions, found in stored calls, and names that models write instead."""


def name_arguments(offered: Collection[str], given: Mapping[str, Any]) -> dict[str, Any]:
    """Rename arguments to their offered names. An argument keeps its name, and is refused as unknown, if several
    offered names fit it or if another argument fits the offered name too."""
    free = {name: {_fold_name(one) for one in (name, *OTHER_NAMES.get(name, ()))} for name in {*offered} - {*given}}
    meant = {one: [name for name in free if one not in offered and _fold_name(one) in free[name]] for one in given}
    taken = [name for names in meant.values() for name in names]
    return {
        names[0] if len(names) == 1 and taken.count(names[0]) == 1 else one: given[one] for one, names in meant.items()
    }


def _fold_name(name: str) -> str:
    """A name for comparison: without case, blanks, dashes and underscores, which models change."""
    return "".join(filter(str.isalnum, name)).casefold()


class ToolArgs(FrozenModel):
    @model_validator(mode="before")
    @classmethod
    def _use_offered_names(cls, values: Any) -> Any:
        return name_arguments(cls.model_fields, values) if isinstance(values, dict) else values


PAGE = 20
"""Items of a page."""
T = TypeVar("T")


def slice_page(items: Sequence[T], page: int, size: int = PAGE) -> tuple[Sequence[T], int | None]:
    """The items of a page, counted from 1, and the number of the next page if there is one."""
    end = page * size
    return items[end - size : end], page + 1 if len(items) > end else None
