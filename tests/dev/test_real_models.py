"""Real models that are found beside the rehearsal model: the answers of their servers and of hostile ones, and that
nothing is sent anywhere unasked."""

import asyncio
import gzip
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, closing, suppress
from pathlib import Path
from typing import Any

import pytest

from bot.app.settings import Settings, load_settings
from bot.core.cancellation import cancel_and_wait
from bot.dev import real_models
from bot.dev.real_models import ANSWER_S, MOST_BYTES, RealModel, find_real_models
from tests.harness.programs import free_ports, printed, started
from tests.harness.serving import HOST


def build_list(owner: str, *models: Any, **more: Any) -> dict[str, Any]:
    """The answer of a server of this kind; `more` about each model."""
    return {"object": "list", "data": [{"id": one, "object": "model", "owned_by": owner, **more} for one in models]}


LLAMA = "../models/Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf"
OLLAMA = build_list("library", "nomic-embed-text:latest", "qwen3:8b", "llama3.2:latest", created=1762900000)
LM_STUDIO = build_list("organization_owner", "text-embedding-nomic-embed-text-v1.5", "qwen/qwen3-8b")
LLAMA_CPP = {"models": [{"name": LLAMA}], **build_list("llamacpp", LLAMA, meta={"vocab_type": 2, "n_vocab": 128256})}
VLLM = build_list("vllm", "Qwen/Qwen3-8B", parent=None, max_model_len=40960, permission=[{"id": "modelperm-d076145f"}])
REHEARSAL = build_list("countersign-rehearsal", "rehearsal")
Speaks = Callable[[asyncio.StreamWriter], Awaitable[None]]


@pytest.fixture(autouse=True)
def no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """However busy the machine is: for tests in which a server answers."""
    monkeypatch.setattr(real_models, "ANSWER_S", 10.0)


def http(body: bytes, status: str = "200 OK", *more: str) -> bytes:
    lines = (f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Content-Type: application/json", *more, "", "")
    return "\r\n".join(lines).encode() + body


@asynccontextmanager
async def serving(answer: bytes | Speaks, asked: list[bytes] | None = None, port: int = 0) -> AsyncIterator[int]:
    """A server that answers every request in this way; yields its port."""
    tasks: set[asyncio.Task[None] | None] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.current_task())
        with closing(writer), suppress(ConnectionError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            if asked is not None:
                asked.append(head)
            if callable(answer):
                await answer(writer)
            else:
                writer.write(answer)
            await writer.drain()

    server = await asyncio.start_server(handle, HOST, port)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await cancel_and_wait([task for task in tasks if task])


async def ask(answer: bytes | Speaks) -> list[RealModel]:
    async with serving(answer) as port:
        return await find_real_models([port])


KNOWN = (
    (OLLAMA, "qwen3:8b", "Ollama"),
    (LM_STUDIO, "qwen/qwen3-8b", "LM Studio"),
    (LLAMA_CPP, LLAMA, "llama.cpp"),
    (VLLM, "Qwen/Qwen3-8B", "vLLM"),
)


async def test_each_server_is_named_with_its_first_model_that_converses(patient: None) -> None:
    asked: list[bytes] = []
    async with AsyncExitStack() as stack:
        answers = [http(json.dumps(answer).encode()) for answer, _, _ in KNOWN]
        ports = [await stack.enter_async_context(serving(one, asked)) for one in answers]
        found = await find_real_models(ports)
    assert found == [
        RealModel(model, server, f"http://127.0.0.1:{port}/v1")
        for (_, model, server), port in zip(KNOWN, ports, strict=True)
    ]
    assert len(asked) == len(KNOWN) and all(one.startswith(b"GET /v1/models HTTP/1.1\r\n") for one in asked)
    assert not any(b"authorization" in one.lower() for one in asked)
    [other] = await ask(http(b'{"data": [{"id": "m", "owned_by": "me"}]}'))
    assert other.model == "m" and other.url == f"http://{other.server}/v1", "nobody knows it: named by its address"


async def drip(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n")
    for _ in range(5000):
        writer.write(b" ")
        await writer.drain()
        await asyncio.sleep(0.01)


async def keep_silent(writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(20)


async def flood(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
    while True:
        writer.write(b" " * 65536)
        await writer.drain()


def listing(*names: Any) -> bytes:
    return http(json.dumps(build_list("me", *names)).encode())


HOSTILE: dict[str, bytes | Speaks] = {
    "no models": listing(),
    "another Countersign": http(json.dumps(REHEARSAL).encode()),
    "only embeddings": listing("text-embedding-3-small", "bge-reranker-v2"),
    "a command": listing("m; rm -rf ~", "$(id)", "`id`", "a\nb", "a'b", 'a"b', "a b", "-x", "", "a\u202eb", "名"),
    "too long": listing("m" * 101),
    "no name": listing(None, 7),
    "a list": http(b"[1, 2]"),
    "a text": http(b'"data"'),
    "a number as data": http(b'{"data": 7}'),
    "deep": http(b"[" * 100_000),
    "no JSON": http(b"<html>hello</html>"),
    "no UTF-8": http(b'{"data": [{"id": "\xff\xfe"}]}'),
    "refused": http(json.dumps(OLLAMA).encode(), "401 Unauthorized"),
    "an error of its own": http(b'{"error": {"message": "loading model"}}', "503 Service Unavailable"),
    "elsewhere": http(b"", "302 Found", "Location: http://192.0.2.1/v1/models"),
    "packed": http(gzip.compress(json.dumps(OLLAMA).encode()), "200 OK", "Content-Encoding: gzip"),
    "too large": http(json.dumps(OLLAMA | {"more": "x" * MOST_BYTES}).encode()),
    "no HTTP": b"SSH-2.0-OpenSSH_9.6\r\n",
    "slow": drip,
    "silent": keep_silent,
    "endless": flood,
}


async def test_what_is_no_proper_answer_is_no_model_and_delays_nothing(subtests: pytest.Subtests) -> None:
    async with serving(b"") as port:
        pass
    assert await find_real_models([port]) == [], "nobody listens"
    for name, answer in HOSTILE.items():
        with subtests.test(name):
            began = time.monotonic()
            assert await ask(answer) == []
            assert time.monotonic() - began < ANSWER_S + 10  # on a busy machine; without a limit it takes 20


async def test_a_key_in_the_environment_is_named_and_kept_from_other_servers(
    monkeypatch: pytest.MonkeyPatch, patient: None, tmp_path: Path
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-a-real-one")
    async with serving(http(json.dumps(OLLAMA).encode())) as port:
        local, known = await find_real_models([port])
    start = f"OPENAI_API_KEY='' OPENAI_BASE_URL=http://127.0.0.1:{port}/v1 OPENAI_MODEL=qwen3:8b"
    assert local.command == f"{start} deploy/run"
    assert known.command == f"OPENAI_MODEL={Settings.model_fields['openai_model'].default} deploy/run"
    assert (local.sentence, known.sentence) == ("offer_local", "offer_key")
    monkeypatch.chdir(tmp_path)
    assert local.command == f"{start} countersign run", "elsewhere it is that of the package"


SLACK = {"SLACK_BOT_TOKEN": "xoxb-not-a-real-one", "SLACK_APP_TOKEN": "xapp-not-a-real-one"}


@pytest.mark.parametrize(
    ("environment", "file", "used"),
    [
        ({}, "", False),
        ({"OPENAI_MODEL": "m"}, "", True),
        ({"OPENAI_BASE_URL": "http://127.0.0.1:1/v1"}, "", True),
        (SLACK, "", True),
        ({}, "OPENAI_API_KEY=sk-not-a-real-one\n", True),
        ({}, "OPENAI_MODEL=m\n", True),
        ({}, "STEPS=quiet\n", False),
    ],
)
def test_a_key_that_only_happens_to_be_there_is_not_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, environment: dict[str, str], file: str, used: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, value in {"OPENAI_API_KEY": "sk-not-a-real-one", **environment}.items():
        monkeypatch.setenv(name, value)
    (tmp_path / ".env").write_text(file)
    assert load_settings().has_real_model is used


async def test_the_start_names_what_it_found_and_uses_none_of_it(tmp_path: Path) -> None:
    """On the real port of one of the servers, or of none if all are taken on this machine."""
    asked: list[bytes] = []
    env = {"DATA_DIR": str(tmp_path / "data"), "LOCAL_PORT": str(free_ports()), "OPENAI_API_KEY": "sk-not-a-real-one"}
    env["RUN_FIRST"] = "from bot.dev import real_models; real_models.ANSWER_S = 10.0"  # however busy the machine is
    async with AsyncExitStack() as stack:
        with suppress(OSError):
            await stack.enter_async_context(serving(http(json.dumps(LM_STUDIO).encode()), asked, 1234))
        child = await stack.enter_async_context(started("run", cwd=tmp_path, env=env))
        said = await printed(child, "OPENAI_MODEL=gpt-6.1-terra countersign run")
        if asked:
            command = (
                "OPENAI_API_KEY='' OPENAI_BASE_URL=http://127.0.0.1:1234/v1 OPENAI_MODEL=qwen/qwen3-8b countersign run"
            )
            assert command in said and "real model: qwen/qwen3-8b (LM Studio)" in said
            assert {one.partition(b"\r\n")[0] for one in asked} == {b"GET /v1/models HTTP/1.1"}
            assert not any(b"sk-not" in one for one in asked)
    assert "rehearsal: rules, not a model" in said and "sk-not" not in said


async def test_once_it_is_asked_for_it_is_used_and_nothing_is_looked_for(tmp_path: Path) -> None:
    asked: list[bytes] = []
    env = {"DATA_DIR": str(tmp_path / "data"), "LOCAL_PORT": str(free_ports())}
    async with serving(http(json.dumps(OLLAMA).encode()), asked) as port:
        env |= {"OPENAI_BASE_URL": f"http://127.0.0.1:{port}/v1", "OPENAI_MODEL": "qwen3:8b"}
        async with started("run", cwd=tmp_path, env=env) as child:
            said = await printed(child, "Follow it")
    assert f"qwen3:8b at http://127.0.0.1:{port}/v1" in said and asked == []
