"""The peers: what else one would pick, each in an environment of its own that is made once and can be thrown away."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from tests.bench.outside import ROOT

CACHE = ROOT / ".venv-bench"
INSTALL_S = 900

PINS = {
    "pydantic_ai": ("pydantic-ai-slim[openai]==2.68.0", "openai==3.52.0"),
    "langgraph": (
        "langgraph==1.2.22",
        "langchain-openai==1.7.3",
        "langgraph-checkpoint-redis==0.5.2",
        "openai==3.52.0",
    ),
    "openai_agents": ("openai-agents[redis]==0.24.0", "openai==3.52.0"),
    "spiffworkflow": ("SpiffWorkflow==3.2.0", "lxml==6.1.3", "redis[hiredis]==8.1.0"),
}
"""Environment → what is installed into it."""


@dataclass(frozen=True)
class Peer:
    """One way to use a peer. `program`: module of `tests.bench.programs`, and which way of it."""

    program: str
    title: str
    environment: str
    persists: bool = False
    python: str = ""
    needs: str = ""
    """What it cannot do without, to be said where it does not run."""


PEERS = (
    Peer("pydantic_ai", "pydantic-ai", "pydantic_ai"),
    Peer("langgraph", "LangGraph create_react_agent", "langgraph"),
    Peer("langgraph:memory", "LangGraph, in-memory checkpointer", "langgraph"),
    Peer("langgraph:plain-redis", "LangGraph, a minimal saver on plain Redis", "langgraph", True),
    Peer(
        "langgraph:redis", "LangGraph, its Redis checkpointer", "langgraph", True, needs="a Redis with JSON and search"
    ),
    Peer("openai_agents", "openai-agents", "openai_agents"),
    Peer("openai_agents:redis", "openai-agents, RedisSession", "openai_agents", True),
)
TITLES = {"floor": "floor: a bare loop", "ours": "ours", "whole": "ours, whole"} | {p.program: p.title for p in PEERS}


def available(
    doing: Callable[[str], None], works: Callable[[Peer], str], install: Callable[[str], str] | None = None
) -> tuple[list[Peer], list[str]]:
    """The peers that can be run here, and why the others cannot. `works` tries one, `install` makes an environment:
    what is wrong, or nothing."""
    found, skipped, broken = list[Peer](), list[str](), dict[str, str]()
    for peer in PEERS:
        doing(f"preparing {peer.title}")
        if peer.environment not in broken:
            broken[peer.environment] = (install or installed)(peer.environment)
        ready = replace(peer, python=str(python_of(peer.environment)))
        if problem := broken[peer.environment] or works(ready):
            needs = f"needs {peer.needs}; " if peer.needs else ""
            skipped.append(f"{peer.title}: {needs}{problem}")
        else:
            found.append(ready)
    return found, skipped


def python_of(environment: str) -> Path:
    return CACHE / environment / "bin" / "python"


def installed(environment: str) -> str:
    """Makes an environment unless it is there; what went wrong, or nothing."""
    folder, wanted = CACHE / environment, "\n".join((sys.version, *PINS[environment]))
    stamp = folder / "made-from"
    if stamp.exists() and stamp.read_text(encoding="utf-8") == wanted:
        return ""
    pip = [str(python_of(environment)), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    try:
        for command in ([sys.executable, "-m", "venv", "--clear", str(folder)], [*pip, *PINS[environment]]):
            subprocess.run(command, check=True, capture_output=True, text=True, timeout=INSTALL_S)
    except subprocess.CalledProcessError as error:
        return f"could not be installed ({last_line(error.stderr)})"
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"could not be installed ({type(error).__name__})"
    stamp.write_text(wanted, encoding="utf-8")
    return ""


def last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:200] if lines else "no reason given"
