"""Feishu's client against a server that limits, refuses, forgets tokens and breaks off."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from aiohttp import web

from bot.core.errors import (
    ChatAccountError,
    ChatBusyError,
    ChatError,
    ChatRefusedError,
    ChatUnavailableError,
    FileRefusedError,
    PlaceClosedError,
    SettingsError,
)
from bot.core.redaction import redact_text
from bot.platforms.feishu import client as client_module
from bot.platforms.feishu.client import GONE_CODES, FeishuBot, FeishuClient, identify_bot, open_feishu_client
from tests.platforms.feishu.api_server import Api, run_api
from tests.platforms.feishu.frame_server import APP_ID, APP_SECRET

Reply = Callable[[web.Request], Any]
OK = {"code": 0, "msg": "success", "data": {"message_id": "om_1"}}


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with run_api() as api:
        yield api


@pytest.fixture
async def client(api: Api) -> AsyncIterator[FeishuClient]:
    async with open_feishu_client(APP_ID, APP_SECRET, api.url) as client:
        yield client


def limit(code: int = 99991400, status: int = 429, **headers: str) -> Reply:
    return lambda request: web.json_response({"code": code, "msg": "frequency"}, status=status, headers=headers)


def break_off(request: web.Request) -> web.StreamResponse:
    request.transport.abort()
    return web.Response()


async def post(client: FeishuClient, **more: Any) -> dict[str, Any]:
    path = "im/v1/messages/om_5ce6d572455d361153b7cb51da133945/reply"
    return await client.call("POST", path, query={"a": "b"}, body={"content": "{}", "uuid": "u"}, **more)


async def test_calls_have_one_token_and_return_their_data(api: Api, client: FeishuClient) -> None:
    api.replies = [OK]
    assert await asyncio.gather(*(post(client) for _ in range(20))) == [{"message_id": "om_1"}] * 20
    path = "POST /open-apis/im/v1/messages/om_5ce6d572455d361153b7cb51da133945/reply"
    assert api.calls == [("Bearer t-1", path, {"content": "{}", "uuid": "u"})] * 20 and api.tokens == 1
    for more, data in (({"bot": {"open_id": "ou_bot"}}, {"bot": {"open_id": "ou_bot"}}), ({"data": None}, {})):
        api.replies = [{"code": 0, "msg": "ok", **more}]
        assert await client.call("GET", "bot/v3/info") == data


async def test_a_token_is_renewed_ahead_of_its_end_and_nobody_waits(api: Api, client: FeishuClient) -> None:
    api.replies = [OK]
    await post(client)
    client._renew_at = time.monotonic()
    api.token_replies = [break_off]  # the renewal fails: the present token holds
    await asyncio.gather(*(post(client) for _ in range(5)))
    while client._renewal is not None:
        await asyncio.wait([client._renewal])
        await asyncio.sleep(0)
    await post(client)
    assert api.tokens == 2 and {token for token, _, _ in api.calls} == {"Bearer t-1"}
    api.token_replies, client._renew_at = [], time.monotonic()
    await post(client)
    await client._renewal  # type: ignore[misc]
    await post(client)
    assert api.calls[-2][0] == "Bearer t-1" and api.calls[-1][0] == "Bearer t-3"


@pytest.mark.parametrize("code", [99991661, 99991663, 99991664, 99991668])
async def test_a_dead_token_is_replaced_once(api: Api, client: FeishuClient, code: int) -> None:
    api.replies = [{"code": code, "msg": "dead"}, OK]
    assert await post(client, tries=1) == {"message_id": "om_1"}
    assert [token for token, _, _ in api.calls] == ["Bearer t-1", "Bearer t-2"]
    api.replies = [{"code": code, "msg": "dead"}]
    with pytest.raises(ChatAccountError):
        await post(client)
    assert len(api.calls) == 4


async def test_a_limit_is_waited_out_as_long_as_it_says_unless_that_is_long(api: Api, client: FeishuClient) -> None:
    api.replies = [limit(**{"x-ogw-ratelimit-reset": "1"}), OK]
    began = time.monotonic()
    assert await post(client) == {"message_id": "om_1"}
    assert 1 <= time.monotonic() - began < 5
    api.replies = [limit(**{"x-ogw-ratelimit-reset": "3600"})]
    with pytest.raises(ChatBusyError) as failed:
        await post(client)
    assert failed.value.wait_ms == 3_600_000 and failed.value.method.startswith("POST im/v1/messages/:id/reply")


@pytest.mark.parametrize(
    "reply",
    [limit(230020, 400), limit(11232, 200), limit(99991400, 400), limit(0, 429), lambda r: web.Response(status=429)],
)
async def test_every_limit_is_known(api: Api, client: FeishuClient, reply: Reply) -> None:
    api.replies = [reply, OK]
    assert await post(client, retry_delay_s=0.01) == {"message_id": "om_1"}
    api.replies = [reply]
    with pytest.raises(ChatBusyError) as failed:
        await post(client, retry_delay_s=0.01)
    assert failed.value.wait_ms > 0
    began = len(api.calls)
    with pytest.raises(ChatBusyError):
        await post(client, waits_out_limit=False)
    assert len(api.calls) == began + 1


@pytest.mark.parametrize(
    "reply",
    [break_off, "<html>gateway</html>", "[1]", lambda r: web.json_response(OK, status=502), {"code": 1500, "msg": "?"},
     {"msg": "no code"}, {"code": True}, lambda r: web.Response(status=302, headers={"Location": "http://127.0.0.1:1/"})],
)  # fmt: skip
async def test_an_outage_is_tried_again_and_then_told(api: Api, client: FeishuClient, reply: Any) -> None:
    api.replies = [reply, OK]
    assert await post(client, retry_delay_s=0.01) == {"message_id": "om_1"}
    api.replies, began = [reply], len(api.calls)
    with pytest.raises(ChatUnavailableError) as failed:
        await post(client, retry_delay_s=0.01)
    assert type(failed.value) is ChatUnavailableError and failed.value.code == "unreachable"
    assert len(api.calls) == began + 3


@pytest.mark.parametrize(
    ("code", "kind"),
    [(230002, PlaceClosedError), (230013, PlaceClosedError), (230018, PlaceClosedError), (99991662, ChatAccountError),
     (99991543, ChatAccountError), (10003, ChatRefusedError), (230011, ChatRefusedError),
     (230050, ChatRefusedError), (230110, ChatRefusedError), (230001, ChatRefusedError)],
)  # fmt: skip
async def test_a_refusal_is_told_with_its_number_and_log_id_and_no_secret(
    api: Api, client: FeishuClient, code: int, kind: type[ChatError], capsys: pytest.CaptureFixture[str]
) -> None:
    api.replies = [{"code": code, "msg": "refused", "error": {"log_id": "another"}}]
    with pytest.raises(ChatError) as failed:
        await post(client)
    assert type(failed.value) is kind and failed.value.code == str(code) and "log1" in str(failed.value)
    assert len(api.calls) == 1 and (failed.value.code in GONE_CODES) == (code in (230011, 230050, 230110))
    told = f"{client!r} {failed.value!r} {capsys.readouterr()}"
    assert APP_SECRET not in told and "t-1" not in told and str(code) in told


async def test_before_each_try_can_end_the_call(api: Api, client: FeishuClient) -> None:
    api.replies, tries = ["?"], list[int]()

    async def stop_second() -> None:
        tries.append(1)
        if len(tries) == 2:
            raise KeyError("the lease is lost")

    with pytest.raises(KeyError):
        await post(client, before_each_try=stop_second, retry_delay_s=0.01)
    assert len(api.calls) == 1


async def test_the_token_service_away_is_no_wrong_setting(api: Api, client: FeishuClient) -> None:
    for reply, kind in (
        (break_off, ChatUnavailableError),
        ({"code": 0, "msg": "ok"}, ChatUnavailableError),
        ({"code": 10014, "msg": "app secret invalid"}, ChatAccountError),
        (limit(), ChatBusyError),
    ):
        api.token_replies = [reply]
        with pytest.raises(ChatUnavailableError) as failed:
            await post(client)
        assert type(failed.value) is kind and not api.calls


async def test_the_bot_is_identified(api: Api, client: FeishuClient) -> None:
    bot = {"code": 0, "msg": "ok", "bot": {"activate_status": 2, "app_name": "审批", "open_id": "ou_bot"}}
    api.replies = [bot, {"code": 0, "data": {"tenant": {"name": "a", "tenant_key": "736588c9260f175e"}}}]
    assert await identify_bot(client) == FeishuBot("ou_bot", "审批", "736588c9260f175e")


@pytest.mark.parametrize(
    ("code", "word"),
    [(11205, "capability Bot"), (99991672, "tenant:tenant:readonly"), (99991662, "FEISHU_APP_ID"),
     (10014, "FEISHU_APP_SECRET")],
)  # fmt: skip
async def test_an_app_says_what_it_lacks(api: Api, client: FeishuClient, code: int, word: str) -> None:
    api.replies = [{"code": code, "msg": "no"}]
    api.token_replies = api.replies if code == 10014 else []
    with pytest.raises(SettingsError, match=word) as failed:
        await identify_bot(client)
    assert APP_SECRET not in str(failed.value)


async def test_a_file_is_uploaded_whole_also_at_the_second_try(api: Api, client: FeishuClient) -> None:
    api.replies = ["?", {"code": 0, "data": {"image_key": "img_1"}}]
    key = await client.upload("image", "bild.png", b"x" * 2_000_000, {"image_type": "message"})
    assert key == "img_1" and len(api.calls) == 2
    assert all(body.count("x") >= 2_000_000 and 'name="image_type"' in body for _, _, body in api.calls)


def give_file(content: bytes) -> Reply:
    named = {"Content-Disposition": 'attachment; filename="a.pdf"'}
    return lambda request: web.Response(body=content, headers=named)


async def fetch(client: FeishuClient, most: int = 1_000_000) -> bytes:
    return await client.download("im/v1/messages/om_1/resources/file_1", query={"type": "file"}, max_bytes=most)


async def test_a_file_is_downloaded_and_bounded(api: Api, client: FeishuClient) -> None:
    api.replies = [give_file(b'{"code": 7, "msg": "a file that looks like a refusal"}')]
    assert (await fetch(client)).startswith(b'{"code": 7')
    api.replies = [give_file(b"x" * 500_000)]
    with pytest.raises(FileRefusedError, match="too_large"):
        await fetch(client, 200_000)
    api.replies = [break_off]
    with pytest.raises(ChatUnavailableError):
        await fetch(client)


async def test_an_endless_answer_is_not_read(api: Api, client: FeishuClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "ANSWER_MAX", 1_000)
    api.replies = [{"code": 0, "data": {"text": "x" * 100_000}}]
    with pytest.raises(ChatUnavailableError):
        await post(client, tries=1)


@pytest.mark.parametrize("id", ["../../contact/v3/users", "om_1/reply?x=1", "om_1#", "..", "", "om_1%2f..", "om 1"])
async def test_no_id_makes_another_path(api: Api, client: FeishuClient, id: str) -> None:
    """An id comes from a payload, and a path with dots or signs of its own would ask for something else."""
    for ask in (client.call("GET", f"im/v1/messages/{id}/x"), client.download(f"a/{id}/b", query={}, max_bytes=9)):
        with pytest.raises((ChatError, FileRefusedError)):
            await ask
    assert api.calls == []


def test_tokens_and_addresses_of_long_connections_are_masked_wherever_they_are_written() -> None:
    for token in ("t-caecc734c2e3328a62489fe0648c4b98779515d3", "t-g1044qeGEDXTB6NDJOGV4JQCYDGHRBARFTGT1234",
                  "u-7f1bcd13fc57d46bac21793a18e560a2abcdef12"):  # fmt: skip
        for text in (f"Authorization: Bearer {token}", f'{{"tenant_access_token": "{token}"}}', f"got {token}."):
            assert token not in redact_text(text)
    about = "fpid=493&aid=552564&device_id=1&access_key=c5a1e3f9b7&service_id=3&ticket=9f8e-7d6c"
    masked = redact_text(f"lost wss://msg-frontier.feishu.cn/ws/v2?{about}")
    assert "c5a1e3f9b7" not in masked and "9f8e-7d6c" not in masked and "service_id=3" in masked


CALLS = (
    ("im/v1/messages/om_dc13264520392913993dd051dba21dcf/reply", "im/v1/messages/:id/reply"),
    ("im/v1/messages/om_1a2b3c4d/resources/img_v3_02ab_c1d2-e3f4", "im/v1/messages/:id/resources/:id"),
    ("contact/v3/users/ou_84aad35d084aa403a838cf73ee18467", "contact/v3/users/:id"),
    ("contact/v3/departments/od-b696d75511dc16f2b52563e3113a4983", "contact/v3/departments/:id"),
    *(
        (f"im/v1/messages/om_1a2b3c4d/reactions/{reaction}", "im/v1/messages/:id/reactions/:id")
        for reaction in ("-PvzLATyping", "ZCaCIjUBVVWSrm5L-3ZTwsNa8dHVplEzzSfJVUVLMLcS_")
    ),
    *((same, same) for same in ("im/v1/chat_p2p/batch_query", "ephemeral/v1/send", "contact/v3/users/batch_get_id")),
    ("bot/v3/info", "bot/v3/info"),
)


def test_metrics_know_a_call_without_its_ids() -> None:
    assert [(path, client_module.name_call("GET", path)) for path, _ in CALLS] == [(p, f"GET {n}") for p, n in CALLS]
