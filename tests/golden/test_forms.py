"""Records of every form that was ever stored, in one file for each number of a form: they are read for ever.

A record whose form changes gets the next number of `v` in its class, a section in the file of that number
(`GOLDEN=write`), and a reader for the form before. Sections of earlier forms are never written again.
"""

import json
import types
from collections.abc import Mapping
from dataclasses import is_dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest
from fakeredis import FakeAsyncRedis
from pydantic import BaseModel, ValidationError

from bot.app.dispatch import MODELS, parse_work
from bot.core.records import Approval, Run, is_newer_record
from bot.core.work_items import RelayEngineEvent
from bot.features.files.file_intake import WaitingFile
from bot.features.files.file_store import FileRecord
from bot.features.home.open_pages import HomePlace
from bot.features.sets.set_store import ApprovalSet
from bot.people.member_store import MemberRecord
from bot.queue.keys import Keys
from bot.queue.writes import HSet
from bot.storage.approvals import ApprovalStore
from bot.storage.preferences import Preferences
from tests.golden.golden_files import RECORDED, compare_sections, format_json, parse_sections
from tools.spec import StoredModel
from tools.workflow.engine.commands import RequestEvent
from tools.workflow.engine.state import CompactRecord, Delegation, Request
from tools.workflow.engine.store import OutboxEvent
from tools.workflow.remote.rebuild import CommandRecord

STORED: Mapping[str, type[BaseModel]] = {
    model.__name__: model
    for model in (
        *MODELS,
        *(Run, Approval, ApprovalSet, Request, RequestEvent, Delegation, OutboxEvent, CommandRecord, MemberRecord),
        *(HomePlace, Preferences),
        *(FileRecord, WaitingFile),
    )
}
APPROVALS = ApprovalStore(FakeAsyncRedis(decode_responses=True), Keys("cs", 1))
AT = datetime(2026, 11, 24, 9, 30, tzinfo=UTC)
SAMPLES: Mapping[object, Any] = {
    str: "text",
    int: 7,
    float: 0.5,
    bool: True,
    bytes: b"<bpmn/>",
    Decimal: Decimal("1.5"),
    datetime: AT,
    date: AT.date(),
    Any: {"any": ["JSON", 1]},
    object: "value",
}


def fill(kind: Any, within: tuple[Any, ...] = ()) -> Any:
    """Raw data for this type that says something in each field, the same every time. `within`: the classes around it;
    one that holds others of itself holds none there."""
    if kind in SAMPLES:
        return SAMPLES[kind]
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return fill(inner[0], within)
    if origin is Literal:
        return inner[0]
    if origin in (Union, types.UnionType):
        return fill(next(one for one in inner if one is not type(None)), within)
    if origin in (tuple, list, frozenset):
        return [fill(one, within) for one in inner if one is not Ellipsis and one not in within]
    if origin in (dict, Mapping):
        return {fill(inner[0], within): fill(inner[1], within)}
    if issubclass(kind, Enum):
        return list(kind)[-1]
    if issubclass(kind, tuple):
        return [fill(one, within) for one in get_type_hints(kind).values()]
    if is_dataclass(kind):
        return {name: fill(one, within) for name, one in get_type_hints(kind).items()}
    within = (*within, kind)
    return {name: fill(one.annotation, within) for name, one in kind.model_fields.items() if not one.exclude}


def build_record(name: str) -> BaseModel:
    return STORED[name].model_validate(fill(STORED[name]))


def name_file(number: int) -> str:
    return f"stored/forms_{number}.txt"


def read_forms() -> dict[int, dict[str, Any]]:
    """Every recorded form, by its number and its class."""
    found = dict[int, dict[str, Any]]()
    for file in sorted(RECORDED.glob("stored/forms_*.txt")):
        sections = parse_sections(file.read_text(encoding="utf-8"))
        records = {name: json.loads("\n".join(lines)) for name, lines in sections.items()}
        found[int(file.stem.removeprefix("forms_"))] = records
    return found


def holds(now: Any, before: Any) -> bool:
    """Everything of `before` is there now; fields may have come since."""
    if isinstance(now, dict) and isinstance(before, dict):
        return all(name in now and holds(now[name], value) for name, value in before.items())
    if isinstance(now, list) and isinstance(before, list):
        return len(now) == len(before) and all(map(holds, now, before))
    if isinstance(now, str) and isinstance(before, str) and before.startswith(("{", "[")):  # within a hash of Redis
        return holds(json.loads(now), json.loads(before))
    return bool(now == before)


async def write_record(record: BaseModel) -> Any:
    """What a store keeps of a record: fields of a hash for an approval, JSON for all others."""
    if isinstance(record, Approval):
        write = APPROVALS.build_save_write(record)
        assert isinstance(write, HSet)
        return write.fields
    return json.loads(record.model_dump_json())


async def read_record(name: str, kept: Any) -> BaseModel:
    if name == "Approval":
        await APPROVALS.redis.flushall()
        await APPROVALS.redis.hset("cs:{q00}:apr:A00x", mapping=kept)
        found = await APPROVALS.load_approval("A00x")
        assert found is not None
        return found
    return STORED[name].model_validate_json(json.dumps(kept))


async def test_what_is_written_now_stands_under_its_number() -> None:
    """What stands there already under other names stays: it is of an earlier form."""
    found = read_forms()
    written: dict[int, dict[str, Any]] = {}
    for name in STORED:
        record = build_record(name)
        written.setdefault(record.v, {})[name] = await write_record(record)  # type: ignore[attr-defined]
    for number, records in written.items():
        merged = {**found.get(number, {}), **records}
        compare_sections(name_file(number), {name: [format_json(merged[name])] for name in sorted(merged)})


async def test_every_form_is_read(subtests: pytest.Subtests) -> None:
    found = read_forms()
    assert {name for records in found.values() for name in records} == set(STORED)
    for number, records in found.items():
        for name, kept in records.items():
            with subtests.test(f"{name} {number}"):
                record = await read_record(name, kept)
                assert holds(await write_record(record), kept), "nothing of it is lost"
                assert number <= record.v  # type: ignore[attr-defined]


async def test_a_newer_form_is_left_to_a_newer_process_and_the_first_needs_no_number(subtests: pytest.Subtests) -> None:
    for name in STORED:
        with subtests.test(name):
            kept = await write_record(build_record(name))
            with pytest.raises(ValidationError) as refused:
                await read_record(name, {**kept, "v": "99" if name == "Approval" else 99})
            assert is_newer_record(refused.value)
            kept.pop("v", None)
            assert (await read_record(name, kept)).v == 1  # type: ignore[attr-defined]


def test_what_is_lost_would_be_seen() -> None:
    assert holds({"a": {"b": 1, "new": 2}}, {"a": {"b": 1}})
    assert not holds({"a": {}}, {"a": {"b": 1}}) and not holds({"a": {"b": 2}}, {"a": {"b": 1}})


def test_every_class_of_stored_records_is_here() -> None:
    """The control: a class that says that it is stored and is not in the list would be seen."""
    found = {one.__name__ for base in (StoredModel, CompactRecord) for one in base.__subclasses__()}
    assert len(found) > 20 and found <= {*STORED, "CompactRecord"}


def test_what_the_engine_announced_is_read_as_work() -> None:
    """A record that no scene brings about: what the engine announced and could not be brought."""
    kept = read_forms()[1]["RelayEngineEvent"]
    assert isinstance(parse_work(json.dumps(kept)), RelayEngineEvent)
    event = OutboxEvent(id="L-0001:2:1", kind="approved", data={"request": "L-0001", "to": "U01ZHANG"})
    written = RelayEngineEvent(event=event)
    assert parse_work(written.model_dump_json()) == written
