"""Commands on Feishu: what `doctor` says of an app, the card that somebody presses, and people's names."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from bot.app.services import FeishuApp
from bot.app.settings import Settings
from bot.core.errors import SettingsError
from bot.ops.cli.name_lookup import open_name_lookup
from bot.ops.feishu_check import SCOPES, check_feishu, send_test_card
from bot.platforms.feishu.values import CancelValue, parse_value
from tests.platforms.feishu.api_server import Api, run_api
from tests.platforms.feishu.frame_server import APP_ID, APP_SECRET

ROOT = Path(__file__).parents[2]
BOT = {"code": 0, "bot": {"activate_status": 2, "app_name": "审批", "open_id": "ou_bot"}}
TENANT = {"code": 0, "data": {"tenant": {"tenant_key": "t1"}}}


def grant(*names: str) -> dict[str, Any]:
    rows = [{"scope_name": name, "grant_status": 1, "scope_type": "tenant"} for name in names]
    return {"code": 0, "data": {"scopes": [*rows, {"scope_name": "im:resource", "grant_status": 2}, "odd"]}}


ALL = grant(*(choices[0] for choices in SCOPES))


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with run_api() as api:
        yield api


@pytest.fixture
async def app(api: Api) -> FeishuApp:
    return FeishuApp(url=api.url, app_id=APP_ID, secret=APP_SECRET)


async def look(api: Api, app: FeishuApp, bot: Any = BOT, scopes: Any = ALL) -> list[tuple[str, str]]:
    api.replies = [bot, TENANT, bot, scopes]
    return [(level, text) async for level, text in check_feishu(app, "http")]


async def test_a_healthy_app_is_told_of_the_trap_and_what_is_missing_is_named(api: Api, app: FeishuApp) -> None:
    findings = await look(api, app)
    assert [level for level, _ in findings] == ["ok"] * 3
    assert "tenant t1" in findings[0][1] and f"all {len(SCOPES)}" in findings[1][1]
    assert "card.action.trigger" in findings[2][1] and "--press" in findings[2][1]
    assert not any(APP_SECRET in text for _, text in findings)
    off = {"code": 0, "bot": {**BOT["bot"], "activate_status": 1}}  # type: ignore[dict-item]
    _, switched_off, lacking, _ = await look(api, app, off, grant("im:message", "im:chat", "tenant:tenant:readonly"))
    assert switched_off[0] == "fail" and "publish a version" in switched_off[1]
    assert lacking[0] == "fail" and "im:resource" in lacking[1] and "contact:user.email:readonly" in lacking[1]
    assert "send_as_bot" not in lacking[1] and "im:chat.members:read" not in lacking[1]  # wider ones hold them
    unread = (await look(api, app, scopes={"code": 99991672, "msg": "no"}))[1]
    assert unread[0] == "warn" and "99991672" in unread[1], "permissions that cannot be read"
    imported = json.loads((ROOT / "deploy" / "feishu-scopes.json").read_text(encoding="utf-8"))["scopes"]["tenant"]
    assert {choices[0] for choices in SCOPES} < set(imported)


async def test_wrong_credentials_say_where_to_look_and_a_person_who_cannot_be_reached_is_a_failure(
    api: Api, app: FeishuApp
) -> None:
    api.token_replies = [{"code": 10014, "msg": "app secret invalid"}]
    with pytest.raises(SettingsError, match="FEISHU_APP_SECRET"):
        await look(api, app)
    api.token_replies, api.replies = [], [{"code": 230013, "msg": "no availability"}]
    level, text = await send_test_card(app, "a@b.cn")
    assert level == "fail" and "a@b.cn (230013)" in text and "network" not in text


@pytest.mark.parametrize(("code", "said"), [(1000040350, "50 long connections"), (403, "FEISHU_MODE=http")])
async def test_a_refused_long_connection_says_who_can_change_that(
    api: Api, app: FeishuApp, code: int, said: str
) -> None:
    api.replies = [BOT, TENANT, BOT, ALL, {"code": code, "msg": "no"}]
    findings = [(level, text) async for level, text in check_feishu(app, "long")]
    [(_, failed)] = [one for one in findings if one[0] == "fail"]
    assert said in failed and "network" not in failed


@pytest.mark.parametrize(("person", "kind"), [("ou_84aad35d084aa403a838cf73ee18467", "open_id"), ("a@b.cn", "email")])
async def test_the_test_card_carries_a_button_that_only_changes_the_card(
    api: Api, app: FeishuApp, person: str, kind: str
) -> None:
    api.replies = [{"code": 0, "data": {}}]
    level, text = await send_test_card(app, person)
    [(_, path, body)] = api.calls
    assert level == "ok" and person in text and path == "POST /open-apis/im/v1/messages"
    card = json.loads(body["content"])
    assert body["receive_id"] == person and body["uuid"] and api.queries[-1] == {"receive_id_type": kind}
    assert isinstance(parse_value(card["body"]["elements"][1]["behaviors"][0]["value"]), CancelValue)


async def test_a_command_names_people_by_the_contacts_of_feishu(api: Api) -> None:
    li = {"open_id": "ou_0123456789", "name": "李四", "en_name": "Li Si", "status": {"is_activated": True}}
    nobody, people = {"code": 0, "data": {"items": []}}, {"code": 0, "data": {"items": [li]}}
    api.replies = [BOT, TENANT, nobody, people]
    settings = Settings(
        _env_file=None, feishu_app_id=APP_ID, feishu_app_secret=SecretStr(APP_SECRET), feishu_api_url=api.url
    )
    async with open_name_lookup(settings) as names:
        assert [one.id for one in await names.list_people()] == ["ou_0123456789"]
        assert await names.find_name("ou_0123456789") in ("李四", "Li Si")
        assert await names.find_name("ou_somebodyelse") == ""
