"""Records that no story brings about."""

from __future__ import annotations

from bot.app.work_kinds import parse_work
from bot.core.work_items import RelayEngineEvent
from tests.golden.pinned import compare
from tools.workflow.engine.store import OutboxEvent


def test_what_the_engine_announced_and_could_not_be_brought() -> None:
    event = OutboxEvent(id="L-0001:2:1", kind="approved", data={"request": "L-0001", "to": "U01ZHANG"})
    written = RelayEngineEvent(event=event).model_dump_json()
    compare("news.json", written)
    assert parse_work(written) == RelayEngineEvent(event=event)
