"""The way to an endpoint: through the proxy that the environment names, and with the login in its address."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from bot.agent.models.openai_model import open_model
from bot.core.errors import ModelRejectedError, ModelUnavailableError

ANSWER = {"choices": [{"message": {"content": "Hello!"}, "finish_reason": "stop"}]}
HELLO = ['{"role": "user", "content": "hi"}']


@asynccontextmanager
async def serve_heads(moved_to: str = "") -> AsyncIterator[tuple[str, list[str]]]:
    """Answers everything alike, with a redirect if it has `moved_to` another address, and keeps the head of each
    request."""
    heads: list[str] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        heads.append(head)
        body = json.dumps(ANSWER).encode()
        status = f"307 Moved\r\nLocation: http://{moved_to}/" if moved_to else "200 OK"
        writer.write(f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nConnection: close\r\n".encode())
        writer.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}", heads


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
async def test_a_proxy_is_asked_for_addresses_elsewhere(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serve_heads() as (proxy, heads):
        monkeypatch.setenv(name, f"http://{proxy}")
        async with open_model("http://models.example/v1", "key", "m", retries=0) as model:
            assert (await model.request_reply(HELLO, "", timeout_s=5)).text == "Hello!"
    assert heads[0].startswith("POST http://models.example/v1/chat/completions HTTP/1.1\r\n")


async def test_what_the_environment_excepts_is_asked_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serve_heads() as (own, heads):
        monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
        monkeypatch.setenv("NO_PROXY", "localhost,127.0.0.1")
        async with open_model(f"http://{own}/v1", "key", "m", retries=0) as model:
            assert (await model.request_reply(HELLO, "", timeout_s=5)).text == "Hello!"
    assert heads[0].startswith("POST /v1/chat/completions HTTP/1.1\r\n")
    assert "authorization: Bearer key\r\n" in heads[0] and "stainless" not in heads[0], "nothing about the machine"


async def test_a_login_in_the_address_goes_before_the_key_and_is_told_to_nobody() -> None:
    async with (
        serve_heads() as (own, heads),
        open_model(f"http://anna:p%40ss@{own}/v1", "key", "m", retries=0) as model,
    ):
        assert (await model.request_reply(HELLO, "", timeout_s=5)).text == "Hello!"
        assert "p%40ss" not in model.url and "anna" not in model.url
    assert "authorization: Basic YW5uYTpwQHNz\r\n" in heads[0] and "Bearer" not in heads[0]


async def test_an_older_address_of_azure_takes_its_version_and_the_key_in_its_own_header() -> None:
    async with (
        serve_heads() as (own, heads),
        open_model(f"http://{own}/openai/deployments/d?api-version=2024-10-21", "key", "m", retries=0) as model,
    ):
        assert (await model.request_reply(HELLO, "", timeout_s=5)).text == "Hello!"
    assert heads[0].startswith("POST /openai/deployments/d/chat/completions?api-version=2024-10-21 HTTP/1.1\r\n")
    assert "api-key: key\r\n" in heads[0] and "Bearer" not in heads[0]


async def test_what_is_asked_for_in_an_address_goes_with_every_request() -> None:
    async with serve_heads() as (own, heads), open_model(f"http://{own}/v1?key=k#x", "key", "m", retries=0) as model:
        assert (await model.request_reply(HELLO, "", timeout_s=5)).text == "Hello!" and "key=k" not in model.url
    assert heads[0].startswith("POST /v1/chat/completions?key=k HTTP/1.1\r\n")


async def test_a_redirect_takes_the_prompt_nowhere_else() -> None:
    async with (
        serve_heads() as (elsewhere, got),
        serve_heads(moved_to=elsewhere) as (own, heads),
        open_model(f"http://{own}/v1", "key", "m", retries=0) as model,
    ):
        with pytest.raises((ModelUnavailableError, ModelRejectedError)):
            await model.request_reply(HELLO, "", timeout_s=5)
    assert len(heads) == 1 and got == []
