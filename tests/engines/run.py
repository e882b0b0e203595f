"""Runs the bot with a workflow engine on this machine: `python -m tests.engines.run operaton`, or
`deploy/run --engine operaton`.

The engine keeps its requests in a file in `DATA_DIR`, has the shipped processes, and ends with the bot."""

import argparse
import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.engines.launch import PATHS, NoEngineError, read_class_path, running_engine
from tools.workflow.process.definition import load_shipped_processes
from tools.workflow.remote.api import EngineName
from tools.workflow.remote.open_engine import EngineAddress, open_api
from tools.workflow.remote.process_versions import convert_to_engine


async def deploy_shipped_processes(kind: EngineName, url: str) -> None:
    """Deploy what the engine does not have yet."""
    async with open_api(EngineAddress(kind=kind, url=url, timeout_s=60)) as (_, api):
        for process in load_shipped_processes():
            content = convert_to_engine(process.bpmn, kind)
            known = await api.find_definition_id(process.key)
            if not known or await api.load_definition_xml(known) != content:
                await api.deploy_file(f"{process.key}.bpmn", content)


def run_with_engine(kind: EngineName, arguments: list[str]) -> int:
    """Run `countersign run` with the engine, and return its exit code. Raises `NoEngineError`."""
    folder = Path(os.environ.get("DATA_DIR") or ".countersign", "engines").absolute()
    folder.mkdir(parents=True, exist_ok=True)
    print(f"Starting {kind}; the first time Maven fetches it …", file=sys.stderr, flush=True)
    read_class_path(kind)
    log = folder / f"{kind}.log"
    with log.open("w", encoding="utf-8") as out, running_engine(kind, out, database=f"file:{folder / kind}") as url:
        asyncio.run(deploy_shipped_processes(kind, url))
        print(f"\nThe requests are kept by {kind} at {url}\n  its data: {folder}  its log: {log.name}", flush=True)
        env = {"WORKFLOW_ENGINE": kind, "ENGINE_URL": url, "ENGINE_USER": "", "ENGINE_PASSWORD": ""}
        env["STANDIN_ENGINE"] = f"{kind}: {url}"
        bot = subprocess.Popen([sys.executable, "-m", "bot", "run", *arguments], env={**os.environ, **env})
        # Ctrl-C is for the bot, which ends in its own time; the engine ends after it.
        signal.signal(signal.SIGINT, lambda *_: None)
        signal.signal(signal.SIGTERM, lambda *_: bot.terminate())
        return bot.wait()


def main() -> None:
    parser = argparse.ArgumentParser(prog="deploy/run --engine")
    parser.add_argument("engine", choices=sorted(PATHS))
    known, arguments = parser.parse_known_args()
    try:
        sys.exit(run_with_engine(known.engine, arguments))
    except NoEngineError as missing:
        sys.exit(f"countersign: {missing}")


if __name__ == "__main__":
    main()
