"""Real models that could take the rehearsal model's place: those of model servers on this machine, and OpenAI's if
OPENAI_API_KEY is in the environment. Each is named with the command that uses it, and nothing uses it by itself. The
servers get one GET of `/v1/models` on loopback, without a key; their answers are foreign text."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from bot.app.settings import Settings

PORTS = (11434, 1234, 8080, 8000)
"""Usual ports of Ollama, LM Studio, llama.cpp and vLLM."""
SERVERS = {"library": "Ollama", "organization_owner": "LM Studio", "llamacpp": "llama.cpp", "vllm": "vLLM"}
"""`owned_by` in a server's answer → the server's name."""
ANSWER_S = 0.3
"""Time for the answers of all servers (s)."""
MOST_BYTES = 256 * 1024
"""Length of the longest answer that is read."""

_NAME = re.compile(r"[\w./][\w./:@+-]{0,99}", re.ASCII)
_OTHER = re.compile(r"embed|rerank|^rehearsal$", re.IGNORECASE)
"""Models that do not converse, and the stand-in of another Countersign."""


@dataclass(frozen=True, slots=True)
class RealModel:
    """A model, who serves it, and the server's address (empty: OpenAI's)."""

    model: str
    server: str
    url: str = ""

    @property
    def sentence(self) -> str:
        """The page's sentence that names it."""
        return "offer_local" if self.url else "offer_key"

    @property
    def name(self) -> str:
        return f"{self.model} ({self.server})"

    @property
    def command(self) -> str:
        """The command that starts the bot with this model. A key for OpenAI is kept from other servers."""
        key = {"OPENAI_API_KEY": ""} if self.url and os.environ.get("OPENAI_API_KEY") else {}
        settings = {**key, **({"OPENAI_BASE_URL": self.url} if self.url else {}), "OPENAI_MODEL": self.model}
        start = "deploy/run" if Path("deploy/run").is_file() else "countersign run"
        return " ".join([*(f"{name}={shlex.quote(value)}" for name, value in settings.items()), start])


async def find_real_models(ports: Sequence[int] = PORTS) -> list[RealModel]:
    """Find one model of each server on these ports, and OpenAI's for a key in the environment."""
    wait = aiohttp.ClientTimeout(total=ANSWER_S)
    async with aiohttp.ClientSession(timeout=wait, auto_decompress=False) as session:
        found = await asyncio.gather(*(_ask_server(session, f"127.0.0.1:{port}") for port in ports))
    known = [RealModel(Settings.model_fields["openai_model"].default, "OpenAI")]
    return [*filter(None, found), *(known if os.environ.get("OPENAI_API_KEY") else ())]


async def _ask_server(session: aiohttp.ClientSession, address: str) -> RealModel | None:
    """Find the first model of this server that converses; None without one, or without a proper answer."""
    url, body = f"http://{address}/v1", b""
    try:
        async with session.get(f"{url}/models", allow_redirects=False) as answer:
            async for part in answer.content.iter_any():
                body += part
                if len(body) > MOST_BYTES:
                    return None
        for model in json.loads(body)["data"] if answer.status == 200 else ():
            if _NAME.fullmatch(model["id"]) and not _OTHER.search(model["id"]):
                return RealModel(model["id"], SERVERS.get(model.get("owned_by"), address), url)
    except (aiohttp.ClientError, TimeoutError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None  # nobody is there, or it is no model server
    return None
