"""The containers: what they may do, and that the bot works with the store as it is locked up there."""

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from redis.asyncio import Redis
from redis.exceptions import AuthenticationError, NoPermissionError

from bot.app.setting_names import find_wrong_names, read_env_file
from bot.app.settings import Settings
from bot.core.timing import Timing
from bot.platforms.shared import DRAIN_S
from bot.queue import worker
from bot.queue.keys import Keys
from bot.redis.check import check_redis
from bot.redis.connect import connect_redis
from bot.redis.embedded import find_server_program
from tests.deploy.visit import Page, read_address, request_leave
from tests.harness.programs import ROOT, free_ports
from tests.harness.tied import build_tied_command, open_tie

DEPLOY = ROOT / "deploy"
COMPOSE, DOCKERFILE = ((DEPLOY / name).read_text(encoding="utf-8") for name in ("compose.yaml", "Dockerfile"))
LOCKS = ("requirements.lock", "requirements-test.lock", "requirements-extras.lock")
PASSWORD = "0123456789abcdef"
VARIABLE = re.compile(r"\$\{(\w+)(?::([-?])([^}]*))?\}")


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(COMPOSE)
    return found


@pytest.fixture(scope="module")
def store(compose: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """A server with the very configuration of `compose.yaml`; its port."""
    folder, port = tmp_path_factory.mktemp("store"), free_ports(1)
    text = VARIABLE.sub(PASSWORD, compose["configs"]["valkey_conf"]["content"]).replace("dir /data", f"dir {folder}")
    file = folder / "valkey.conf"
    file.write_text(f"{text}\nport {port}\nbind 127.0.0.1\n")
    command = build_tied_command(find_server_program(), str(file))
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, pass_fds=[open_tie()]) as server:
        try:
            assert server.stdout is not None
            assert any("Ready to accept connections" in line for line in server.stdout)
            yield port
        finally:
            server.terminate()


@pytest.fixture
async def bot_redis(store: int) -> AsyncIterator[Redis]:
    client = await connect_redis(f"redis://countersign:{PASSWORD}@127.0.0.1:{store}/0")
    yield client
    await client.aclose()


def test_both_containers_are_locked_up_and_only_the_bot_reaches_the_store(compose: dict[str, Any]) -> None:
    services, networks = compose["services"], compose["networks"]
    for name, service in services.items():
        assert service["read_only"] and service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert service["pids_limit"] and service["mem_limit"], name
        assert not {"privileged", "cap_add", "ports", "pid", "ipc"} & set(service), name
        assert all(not volume.startswith(("/", ".", "~")) for volume in service["volumes"]), name
    assert services["valkey"]["user"] == "valkey"
    assert re.search(r"^USER [1-9]\d*$", DOCKERFILE, re.M), "a number, and not root"
    assert services["valkey"]["networks"] == ["store"] and networks["store"]["internal"] is True
    assert set(services["bot"]["networks"]) == {"outside", "store"} and not networks["outside"]


def test_the_bot_can_be_there_several_times_and_has_the_time_to_end(compose: dict[str, Any]) -> None:
    bot = compose["services"]["bot"]
    assert not {"container_name", "ports", "network_mode", "hostname"} & set(bot)
    assert bot["environment"]["REDIS_URL"] and bot["depends_on"]["valkey"]["condition"] == "service_healthy"
    assert "--scale bot=" in COMPOSE and "SIGTERM" in DOCKERFILE
    longest = max(Timing().grace_s, DRAIN_S) + worker._FINAL_WRITE_S
    assert float(bot["stop_grace_period"].removesuffix("s")) >= longest + 5


def test_images_can_be_named_by_digest(compose: dict[str, Any]) -> None:
    """No digest is written here that nobody has seen; `deploy/digests` asks the registry."""
    services, asks = compose["services"], (DEPLOY / "digests").read_text()
    named = [services["valkey"]["image"], services["bot"]["build"]["args"]["PYTHON_IMAGE"]]
    for variable, _, default in (VARIABLE.fullmatch(one).groups() for one in named):  # type: ignore[union-attr]
        assert f"name_by_digest {default}" in asks and f"{variable}=%s" in asks
    assert re.findall(r"^FROM (\S+)", DOCKERFILE, re.M) == ["${PYTHON_IMAGE}"] * 2
    assert "@sha256:" not in COMPOSE


def test_everything_that_the_image_installs_is_checked_by_its_hash() -> None:
    text = DOCKERFILE.replace("\\\n", " ")
    installs = re.findall(r"pip install ([^;&\n]+)", text)
    assert len(installs) == 3 and [one.split()[-1] for one in installs] == [
        "deploy/requirements.lock", "deploy/requirements-extras.lock", "."
    ]  # fmt: skip
    assert all("--require-hashes" in one for one in installs[:2]) and "--no-deps" in installs[2], "ours is the source"
    pins = {name: set(re.findall(r"^([\w.-]+==\S+)", (DEPLOY / name).read_text(), re.M)) for name in LOCKS}
    own, tested, extras = (pins[name] for name in LOCKS)
    assert extras <= tested and not extras & own, "the versions that were tested, and nothing twice"
    known = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    wanted = {re.match(r"[\w-]+", one)[0] for one in (*known["s3"], *known["ops"])}  # type: ignore[index]
    assert wanted <= {one.partition("==")[0] for one in own | extras}


def test_there_is_no_password_to_forget_and_what_only_the_containers_read_is_not_taken_for_a_setting(
    tmp_path: Path,
) -> None:
    """Without a password nothing starts, and it is written nowhere here. They share `.env` with the program, which
    refuses misspelt settings there."""
    uses = [match for match in VARIABLE.finditer(COMPOSE) if match[1] == "STORE_PASSWORD"]
    assert len(uses) == 3 and all(match[2] == "?" for match in uses)
    names = {match[1] for match in VARIABLE.finditer(COMPOSE)}
    file, known = tmp_path / ".env", frozenset(name.upper() for name in Settings.model_fields)
    assert names == {"STORE_PASSWORD", "PYTHON_IMAGE", "VALKEY_IMAGE"} and not names & known
    file.write_text("".join(f"{name}=x\n" for name in names))
    assert not list(find_wrong_names(read_env_file(file), known))
    file.write_text("REDIS_PASSWORD=x\n")
    assert list(find_wrong_names(read_env_file(file), known)), "control: a name that looks like one"


@pytest.mark.slow
async def test_the_bot_works_with_the_store(store: int, bot_redis: Redis, tmp_path: Path) -> None:
    """From the first word to the request, without one command that the store refuses."""
    assert await check_redis(bot_redis, Keys()) == []
    refused = await count_refusals(bot_redis)
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    env |= {"REDIS_URL": f"redis://countersign:{PASSWORD}@127.0.0.1:{store}/0", "LOCAL_PORT": str(free_ports())}
    command = [sys.executable, "-m", "bot", "run"]
    with subprocess.Popen(command, cwd=tmp_path, env=env, stdout=subprocess.PIPE, text=True) as bot:
        try:
            request_leave(Page(read_address(bot)))
        finally:
            bot.terminate()
            said, _ = bot.communicate()
    assert "NOPERM" not in said and await count_refusals(bot_redis) == refused
    with pytest.raises(NoPermissionError):
        await bot_redis.flushall()
    assert await count_refusals(bot_redis) == refused + 1, "control: a refusal is counted"


async def count_refusals(redis: Redis) -> int:
    errors = await redis.info("errorstats")
    return int(errors.get("errorstat_NOPERM", {}).get("count", 0))


HARMFUL = (
    "FLUSHALL", "FLUSHDB", "SHUTDOWN NOSAVE", "CONFIG SET appendonly no", "KEYS *", "REPLICAOF 127.0.0.1 1", "SAVE",
    "MONITOR", "ACL LIST", "GET another:key", "MODULE LIST", "CLIENT KILL TYPE normal", "PUBLISH another x",
)  # fmt: skip


async def test_nobody_else_gets_in_and_the_login_of_the_bot_cannot_do_harm(
    store: int, bot_redis: Redis, subtests: pytest.Subtests
) -> None:
    for url in (f"redis://127.0.0.1:{store}/0", f"redis://countersign:wrong@127.0.0.1:{store}/0"):
        client = Redis.from_url(url)
        with pytest.raises(AuthenticationError):
            await client.get("cs:anything")
        await client.aclose()
    for command in HARMFUL:
        with subtests.test(command), pytest.raises(NoPermissionError):
            await bot_redis.execute_command(*command.split())
    assert await bot_redis.set("cs:control", "1") and await bot_redis.delete("cs:control") == 1, "control"
