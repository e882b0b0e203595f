"""The peers: what else one would pick, each in an environment of its own that is made once and can be thrown away."""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from tests.qa.bench.outside import ROOT

CACHE = ROOT / ".venv-bench"
INSTALL_S = 900

PINS = {
    "pydantic_ai": ("pydantic-ai-slim[openai]==2.68.0", "openai==3.52.0"),
    "langgraph": ("langgraph==1.2.22", "langchain-openai==1.7.3", "openai==3.52.0"),
    "openai_agents": ("openai-agents==0.24.0", "openai==3.52.0"),
}
"""Environment → what is installed into it."""


@dataclass(frozen=True)
class Peer:
    """`program`: module of `tests.qa.bench.programs`, and the name of its environment."""

    program: str
    title: str
    python: str = ""


PEERS = (
    Peer("pydantic_ai", "pydantic-ai"),
    Peer("langgraph", "LangGraph create_react_agent"),
    Peer("openai_agents", "openai-agents"),
)
"""As their papers show them, and nothing is stored."""


def available(doing: Callable[[str], None], works: Callable[[Peer], str]) -> tuple[list[Peer], list[str]]:
    """The peers that can be run here, and why the others cannot. `works` tries one: what is wrong, or
    nothing."""
    found, skipped = list[Peer](), list[str]()
    for peer in PEERS:
        doing(f"preparing {peer.title}")
        ready = replace(peer, python=str(python_of(peer.program)))
        if problem := installed(peer.program) or works(ready):
            skipped.append(f"{peer.title}: {problem}")
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
