"""The page's API: what it gives, what it does, and who may not use it."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import aiohttp
import pytest
from yarl import URL

from bot.dev.workspace.page_api import PAGE
from bot.dev.workspace.workspace import Workspace
from bot.dev.workspace.world import Json
from tests.dev.workspace.blocks import actions, button
from tests.dev.workspace.hands import APP_TOKEN, DM_ZHANG, GENERAL, LI, TRIO, ZHANG, setup, web_client
from tests.harness.hands import Hands
from tests.harness.workspace_server import serve_workspace

GUARD = {"X-Requested-With": "countersign-page"}
UPGRADE = (
    "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    "Sec-WebSocket-Version: 13\r\n"
)
CARD = [actions(button("go", value="1"), block_id="a")]


class Mails:
    """A mailbox with one mail."""

    def __init__(self) -> None:
        self.on_change: Callable[[Json], None] | None = None
        self.mails: list[Json] = [{"id": 1, "subject": "hello"}]


@pytest.fixture
async def workspace() -> AsyncIterator[Workspace]:
    ws = Workspace(setup(), mailbox=Mails())
    ws.standins = {"model": "rehearsal"}
    async with serve_workspace(ws):
        yield ws


@pytest.fixture
async def http(workspace: Workspace) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(workspace.address) as session:
        yield session


async def get(http: aiohttp.ClientSession, path: str, **query: str) -> Json:
    async with http.get(f"/local/{path}", params=query) as response:
        return dict(await response.json())


async def post(http: aiohttp.ClientSession, path: str, **body: Any) -> Json:
    async with http.post(f"/local/{path}", json=body, headers=GUARD) as response:
        assert response.status == 200
        return dict(await response.json())


async def test_state_and_texts(http: aiohttp.ClientSession, driver: Hands) -> None:
    await driver.send_message(LI, GENERAL, "hello")
    state = await get(http, "state", person=ZHANG)
    assert state["team"]["id"] == "T0LOCAL" and state["bot"] == {"id": "U0BOT", "name": "Countersign"}
    assert state["me"]["id"] == ZHANG
    people = [(one["id"], one["name"], one["display"]) for one in state["people"][:2]]
    assert people == [(ZHANG, "zhangsan", "张三"), (LI, "lisi", "李四")]
    assert {c["id"]: (c["name"], c["kind"], c["unread"]) for c in state["channels"]} == {
        GENERAL: ("general", "channel", 1),
        TRIO: ("李四, Countersign", "mpim", 0),
        DM_ZHANG: ("Countersign", "im", 0),
    }
    assert state["standins"] == [{"name": "model", "note": "rehearsal"}]
    assert state["commands"] == ["/countersign", "/leave", "/expense"]
    assert [one["name"] for one in state["shortcuts"]] == ["Request…", "Make this an expense"]
    assert (await post(http, "read", person=ZHANG, channel=GENERAL))["ok"]
    assert all(c["unread"] == 0 for c in (await get(http, "state", person=ZHANG))["channels"])
    assert (await get(http, "state"))["me"]["id"] == ZHANG
    assert (await get(http, "mail"))["mails"] == [{"id": 1, "subject": "hello"}]
    for lang in ("zh", "en"):
        texts = await get(http, "texts", lang=lang)
        assert texts and all(key.startswith("page.") for key in texts)
    assert (await get(http, "texts", lang="fr"))["ok"] is False


async def test_say_edit_and_read_back(http: aiohttp.ClientSession, driver: Hands) -> None:
    root = await post(http, "say", person=ZHANG, channel=GENERAL, text="<@U0BOT> a &lt; b <!channel>")
    await post(http, "say", person=ZHANG, channel=GENERAL, text="@Countersign reply", thread_ts=root["ts"])
    seen = (await get(http, "messages", person=LI, channel=GENERAL))["messages"]
    assert [m["text"] for m in seen] == ["<@U0BOT> a &lt; b &lt;!channel&gt;", "<@U0BOT> reply"]
    assert seen[1]["thread_ts"] == root["ts"]
    await driver.edit_message(ZHANG, GENERAL, root["ts"], "new")
    seen = (await get(http, "messages", person=LI, channel=GENERAL))["messages"]
    assert seen[0]["text"] == "new" and seen[0]["edited"]
    refused = await post(http, "say", person=ZHANG, channel=GENERAL, text=" ")
    assert refused["error"] == "no_text" and refused["message"]
    assert (await get(http, "messages", person=LI, channel=DM_ZHANG))["error"] == "not_in_channel"
    assert (await get(http, "messages", person="U0BOT", channel=GENERAL))["error"] == "user_not_found"


async def test_a_press_without_an_app_says_so_and_everybody_has_the_name_in_their_readers_script(
    workspace: Workspace, http: aiohttp.ClientSession
) -> None:
    ts = (await web_client(workspace).chat_postMessage(channel=GENERAL, text="x", blocks=CARD))["ts"]
    press = {"person": ZHANG, "channel": GENERAL, "ts": ts, "action_id": "go"}
    answer = await post(http, "click", **press)
    assert answer["error"] == "no_app" and "机器人" in answer["message"]
    assert (await post(http, "locale", person=ZHANG, locale="en-US"))["ok"]
    event = workspace.delivery.delivered_events[-1]["event"]
    assert (event["type"], event["user"]["id"], event["user"]["locale"]) == ("user_change", ZHANG, "en-US")
    assert "bot" in (await post(http, "click", **press))["message"]
    assert (await post(http, "locale", person=ZHANG, locale="xx"))["error"] == "invalid_locale"
    english, chinese = await get(http, "state", person=ZHANG), await get(http, "state", person=LI)
    rows = [[(one["display"], one["also"]) for one in state["people"][:2]] for state in (english, chinese)]
    assert rows == [[("Zhang San", "张三"), ("Li Si", "李四")], [("张三", "Zhang San"), ("李四", "Li Si")]]
    assert [c["name"] for c in english["channels"] if c["id"] == TRIO] == ["Li Si, Countersign"]
    assert english["me"]["display"] == "Zhang San"


async def test_feed(workspace: Workspace, http: aiohttp.ClientSession, driver: Hands) -> None:
    workspace.append_log_line({"event": "before"})
    async with http.ws_connect("/local/feed", params={"person": ZHANG}) as feed:
        assert await feed.receive_json(timeout=2) == {"type": "log", "line": {"event": "before"}}
        await driver.wait_until(lambda: workspace.feeds)
        workspace.append_log_line({"event": "now"})
        assert (await feed.receive_json(timeout=2))["line"] == {"event": "now"}
        ts = await driver.send_message(LI, GENERAL, "hello")
        assert await feed.receive_json(timeout=2) == {"type": "changed", "what": "messages", "channel": GENERAL}
        client = web_client(workspace)
        await client.chat_postEphemeral(channel=GENERAL, user=LI, text="not for you")
        await client.chat_postEphemeral(channel=GENERAL, user=ZHANG, text="for you", thread_ts=ts)
        assert (await feed.receive_json(timeout=2))["what"] == "private"
        assert isinstance(workspace.mailbox, Mails) and workspace.mailbox.on_change
        workspace.mailbox.on_change({"id": 2})
        assert (await feed.receive_json(timeout=2))["what"] == "mail"


@pytest.mark.parametrize("path", [f"/local/feed?person={ZHANG}", "/link/?ticket={ticket}"])
async def test_who_goes_away_while_a_socket_opens_leaves_no_error(
    workspace: Workspace, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    """As a page that shows another person at once, or an app that is killed."""
    ticket = (await web_client(workspace).apps_connections_open(app_token=APP_TOKEN))["url"].partition("ticket=")[2]
    address = URL(workspace.address)
    reader, writer = await asyncio.open_connection(address.host, address.port)
    writer.write(f"GET {path.format(ticket=ticket)} HTTP/1.1\r\nHost: {address.authority}\r\n{UPGRADE}\r\n".encode())
    writer.write_eof()
    assert await reader.read() == b""
    writer.close()
    await writer.wait_closed()
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []
    assert not workspace.feeds and not workspace.sockets.list_live_links()


async def test_only_the_last_200_lines_are_replayed(workspace: Workspace) -> None:
    for number in range(250):
        workspace.append_log_line({"n": number})
    assert (len(workspace.lines), workspace.lines[0]) == (200, {"n": 50})


async def test_foreign_pages_are_refused(workspace: Workspace, http: aiohttp.ClientSession) -> None:
    say, evil = {"person": ZHANG, "channel": GENERAL, "text": "x"}, "https://evil.example"
    foreign: list[dict[str, str]] = [{"Origin": evil}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}]
    foreign += [{"Host": host} for host in ("evil.example", "127.0.0.1.evil.example", "[bad")]
    for headers in ({}, *({**GUARD, **one} for one in foreign)):
        async with http.post("/local/say", json=say, headers=headers) as response:
            assert response.status in (400, 403), headers
    for path in ("/", "/local/state", "/page/index.html", "/local/texts", f"/local/file/F0?person={ZHANG}"):
        async with http.get(path, headers={"Host": "evil.example"}) as response:
            assert response.status == 403
    with pytest.raises(aiohttp.WSServerHandshakeError):
        await http.ws_connect("/local/feed", params={"person": ZHANG}, headers={"Origin": evil})
    assert not workspace.state.rooms[GENERAL].messages
    async with http.post("/local/say", json=say, headers={**GUARD, "Origin": workspace.address}) as response:
        assert (await response.json())["ok"]


async def test_a_picture_is_shown_where_it_was_shared(workspace: Workspace, http: aiohttp.ClientSession) -> None:
    client = web_client(workspace)
    for name, content in (("a.png", b"\x89PNG\r\n\x1a\n<script>"), ("b.png", b"<html><script>alert(1)</script>")):
        await client.files_upload_v2(channel=DM_ZHANG, filename=name, content=content)
    picture, page = (message["files"][0]["id"] for message in workspace.state.rooms[DM_ZHANG].messages.values())
    async with http.get(f"/local/file/{picture}", params={"person": ZHANG}) as response:
        assert (response.status, response.content_type) == (200, "image/png")
        assert response.headers["X-Content-Type-Options"] == "nosniff"
    async with http.get(f"/local/file/{page}", params={"person": ZHANG}) as response:
        assert response.content_type == "application/octet-stream", "what is no picture is saved, and never runs here"
        assert response.headers["Content-Disposition"] == "attachment"
        assert response.headers["Content-Security-Policy"].startswith("default-src 'none'")
    for id, person in ((picture, LI), (page, LI), ("F0", ZHANG), (picture, "U0BOGUS")):
        async with http.get(f"/local/file/{id}", params={"person": person}) as response:
            assert response.status == 404, (id, person)


async def test_a_file_is_chosen_sent_and_seen_where_it_was_sent(
    workspace: Workspace, http: aiohttp.ClientSession
) -> None:
    asked = {"person": ZHANG, "name": "票据.pdf"}
    async with http.post("/local/upload", params=asked, data=b"%PDF-1.4", headers=GUARD) as response:
        file = await response.json()
    assert (file["name"], file["size"]) == ("票据.pdf", 8)
    for person in (LI, ZHANG):  # nobody sends what somebody else has chosen
        said = {"person": person, "channel": GENERAL, "text": "", "files": [file["id"]]}
        async with http.post("/local/say", json=said, headers=GUARD) as response:
            assert (await response.json())["ok"] is (person == ZHANG)
    [message] = workspace.state.rooms[GENERAL].messages.values()
    assert (message["subtype"], message["files"][0]["name"]) == ("file_share", "票据.pdf")
    async with http.get(f"/local/file/{file['id']}", params={"person": LI}) as response:
        assert await response.read() == b"%PDF-1.4"
    for headers, name in (({}, "a.pdf"), (GUARD, "")):
        async with http.post("/local/upload", params={"person": ZHANG, "name": name}, headers=headers) as response:
            assert response.status in (400, 403)


async def test_page_files_and_odd_requests(workspace: Workspace, http: aiohttp.ClientSession) -> None:
    async with http.get("/") as response:
        assert response.status == 200 and response.content_type == "text/html"
        policy = response.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy
    for file in PAGE.iterdir():
        async with http.get(f"/page/{file.name}") as response:
            assert response.status == 200, file.name
            assert response.headers["X-Content-Type-Options"] == "nosniff"
            if file.suffix == ".js":
                assert response.content_type == "text/javascript"
    for path in ("..%2Fserver.py", "%2e%2e/server.py", "nothing.js", "..%2f..%2f..%2f..%2fpyproject.toml", ".hidden"):
        async with http.get(URL(f"{workspace.address}/page/{path}", encoded=True)) as response:
            assert response.status == 404, path
    for body in ("{", "[]", json.dumps({"person": 1})):
        async with http.post("/local/say", data=body, headers=GUARD) as response:
            assert (await response.json())["ok"] is False
    for path in ("invented", "state/deeper"):
        async with http.get(f"/local/{path}") as response:
            assert response.status == 404
    assert (await post(http, "submit", person=ZHANG, view_id="V0", values=[]))["error"] == "invalid_arguments"
