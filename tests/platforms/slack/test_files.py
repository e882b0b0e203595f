"""Files of Slack: what payloads say of them, where the token may go, and what is not taken for a file."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import ClientSession, web
from slack_sdk.web.async_client import AsyncWebClient

from bot.chat.messages import FetchedFile, Place, SentFile
from bot.core.errors import ChatUnavailableError, FileRefusedError
from bot.features.files.file_store import NAME, clean_file_name
from bot.platforms.slack.files import SlackFileSource, parse_sent_files
from tests.harness.files import HTML, png
from tests.harness.serving import serve_app

FILE = SentFile(id="F0123ABCD", name="r.png")
HERE = Place(team="T1", channel="C1", thread="1.0")
Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def slack(about: dict[str, Any], answer: Answer) -> AsyncIterator[tuple[SlackFileSource, list[web.Request]]]:
    """A source whose API says this of the file, and whose server answers downloads so."""
    seen: list[web.Request] = []

    async def info(request: web.Request) -> web.Response:
        return web.json_response({"ok": True, "file": json.loads(json.dumps(about).replace("{at}", at))})

    async def download(request: web.Request) -> web.StreamResponse:
        seen.append(request)
        return await answer(request)

    app = web.Application()
    app.router.add_route("*", "/api/files.info", info)
    app.router.add_route("*", "/{rest:.*}", download)
    async with serve_app(app) as at, ClientSession() as session:
        yield SlackFileSource(AsyncWebClient("xoxb-secret", base_url=f"{at}/api/", session=session)), seen


async def give_png(request: web.Request) -> web.Response:
    return web.Response(body=png())


async def reason_of(about: dict[str, Any], answer: Answer = give_png, most: int = 1_000) -> str:
    async with slack(about, answer) as (source, _):
        with pytest.raises(FileRefusedError) as refused:
            await source.fetch_file(FILE, most)
        return refused.value.reason


async def test_a_file_is_fetched_with_the_token_and_somebody_elses_is_not_where_it_has_to_be_ones_own() -> None:
    async with slack({"url_private_download": "{at}/files/r.png"}, give_png) as (source, seen):
        assert (await source.fetch_file(FILE, 1_000)).content == png()
    assert seen[0].headers["Authorization"] == "Bearer xoxb-secret"
    # the id in a dialog comes from a client, and the bot's token reads what its person cannot
    about = {"url_private_download": "{at}/files/r.png", "user": "U02LI"}
    async with slack(about, give_png) as (source, seen):
        with pytest.raises(FileRefusedError, match="not_yours"):
            await source.fetch_file(FILE, 1_000, only_from="U01ZHANG")
        assert not seen, "not a byte of it"
        assert await source.fetch_file(FILE, 1_000, only_from="U02LI") == FetchedFile(png(), "U02LI")
    async with slack({"url_private_download": "{at}/files/r.png"}, give_png) as (source, _):
        with pytest.raises(FileRefusedError, match="not_yours"):
            await source.fetch_file(FILE, 1_000, only_from="U01ZHANG")


FOREIGN = (
    "http://files.slack.com/x",
    "https://files.slack.com.evil.example/x", "https://evilslack.com/x", "https://slack.com@evil.example/x",
    "https://files.slack.com:8443/x", "https://127.0.0.1/x", "http://localhost:1/x",
    "http://169.254.169.254/latest/meta-data", "file:///etc/passwd", "//evil.example/x", "https://[::1",
    "ftp://files.slack.com/x", "",
)  # fmt: skip


async def test_the_token_goes_to_slack_and_to_nobody_else(subtests: pytest.Subtests) -> None:
    for url in FOREIGN:
        with subtests.test(url):
            assert await reason_of({"url_private": url}) == "elsewhere"
    source = SlackFileSource(AsyncWebClient("xoxb-secret"))
    for host in ("files.slack.com", "acme.slack.com", "files.slack-gov.com"):
        assert source._may_have_token(f"https://{host}/files-pri/T1-F1/r.png"), host


async def test_a_redirect_takes_the_token_nowhere_else() -> None:
    stolen: list[str] = []

    async def thief(request: web.Request) -> web.Response:
        stolen.append(request.headers.get("Authorization", ""))
        return web.Response(body=png())

    evil = web.Application()
    evil.router.add_route("*", "/{rest:.*}", thief)

    async def redirect(request: web.Request) -> web.Response:
        raise web.HTTPFound(f"{target}/x")

    async with serve_app(evil) as target:
        assert await reason_of({"url_private": "{at}/x"}, redirect) == "elsewhere" and stolen == []
        with pytest.MonkeyPatch.context() as unsafe:  # negative control: without the check the token is gone
            unsafe.setattr(SlackFileSource, "_may_have_token", lambda self, url: True)
            async with slack({"url_private": "{at}/x"}, redirect) as (source, _):
                await source.fetch_file(FILE, 1_000)
        assert stolen == ["Bearer xoxb-secret"]


async def test_a_redirect_in_a_circle_or_to_nowhere_ends() -> None:
    for location in ("/x", "https://[::1", "", "//evil.example"):

        async def redirect(request: web.Request, location: str = location) -> web.Response:
            return web.Response(status=302, headers={"Location": location})

        assert await reason_of({"url_private": "{at}/x"}, redirect) == "elsewhere", location


async def test_a_file_is_not_read_further_than_its_limit() -> None:
    written = 0

    async def endless(request: web.Request) -> web.StreamResponse:
        nonlocal written
        answer = web.StreamResponse()
        await answer.prepare(request)
        while written < 50_000_000:
            await answer.write(b"x" * 65_536)
            written += 65_536
        return answer

    assert await reason_of({"url_private": "{at}/x", "size": 10}, endless, 100_000) == "too_large"
    assert written < 20_000_000, "nobody goes on reading"
    assert await reason_of({"url_private": "{at}/x", "size": 100_001}, endless, 100_000) == "too_large"


NOT_SHOWN: tuple[tuple[dict[str, Any], str], ...] = (
    ({"is_external": True, "url_private": "{at}/x"}, "external"),
    ({"mode": "external", "url_private": "{at}/x"}, "external"),
    ({"mode": "tombstone"}, "gone"),
    ({"mode": "hidden_by_limit"}, "gone"),
    ({"file_access": "access_denied", "url_private": "{at}/x"}, "gone"),
    ({}, "gone"),
    ({"url_private": 5}, "gone"),
)


async def test_what_slack_does_not_show_is_named(subtests: pytest.Subtests) -> None:
    for about, reason in NOT_SHOWN:
        with subtests.test(**about):
            assert await reason_of(about) == reason


def answering(status: int, **more: Any) -> Answer:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(status=status, **more)

    return answer


async def test_a_refused_download_says_why_and_an_outage_is_no_refusal() -> None:
    for status, reason in ((403, "no_scope"), (404, "gone"), (410, "gone")):
        assert await reason_of({"url_private": "{at}/x"}, answering(status)) == reason
    sign_in = answering(200, body=HTML, content_type="text/html")
    assert await reason_of({"url_private": "{at}/x", "mimetype": "image/png"}, sign_in) == "no_scope", "no file"
    for status in (429, 500, 503):
        async with slack({"url_private": "{at}/x"}, answering(status)) as (source, _):
            with pytest.raises(ChatUnavailableError):
                await source.fetch_file(FILE, 1_000)


def test_every_file_of_a_payload_is_named_whatever_its_shape() -> None:
    rows = [{"id": "F1", "name": "a.png", "size": 3}, {"name": "b"}, {"id": 5, "title": "c"}, {"id": "F2"}, "x", None]
    assert parse_sent_files(rows) == (
        SentFile(id="F1", name="a.png", size=3), SentFile(id="", name="b"), SentFile(id="", name="c"), SentFile(id="F2")
    )  # fmt: skip
    assert parse_sent_files({"id": "F1"}) == parse_sent_files(None) == ()
    assert parse_sent_files([{"id": "F1", "size": -1, "name": "n" * 5_000}])[0].size == 0


def test_a_name_is_one_visible_line() -> None:
    odd = ("aa\u202egnp.exe", "a\nb.png", "\u200b", "", "x" * 300 + ".pdf", "<!channel>.png", "../../etc/passwd")
    for clean in (clean_file_name(name, "F1") for name in odd):
        assert clean and len(clean) <= NAME and clean.isprintable() and "\n" not in clean
