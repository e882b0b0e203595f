"""The outside services: the real ones in the settings, and a local stand-in for each missing one."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from pydantic import SecretStr

from bot.app.claim import claim_folder
from bot.app.redis_source import open_redis, require_writable_folder
from bot.app.settings import Settings
from bot.core.errors import LocalStartError, NoInstallationError
from bot.core.i18n import detect_terminal_language
from bot.queue.worker import Job

FEISHU_URLS = {"feishu": "https://open.feishu.cn", "lark": "https://open.larksuite.com"}
DEMO = Path(__file__).parent.parent / "dev" / "demo"
LOOPBACK = "127.0.0.1"
"""The address that stand-ins listen on."""
READY_S, END_S = 20.0, 10.0
"""Time that the local stand-ins may take to start, and to end (s)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelEndpoint:
    """A model, and how it is asked."""

    url: str
    """Empty for OpenAI's."""
    key: str = field(repr=False)
    name: str
    api: Literal["auto", "chat", "responses"] = "auto"
    effort: Literal["none", "minimal", "low", "medium", "high", "auto"] = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class FeishuApp:
    """The app on Feishu or Lark."""

    url: str
    app_id: str
    secret: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The outside services in use. `standins` names those that are not real."""

    redis_url: str
    model: ModelEndpoint
    smtp_url: str
    slack_api_url: str = ""
    bot_token: str = ""
    app_token: str = ""
    signing_secret: str = ""
    feishu: FeishuApp | None = None
    """Set if Feishu is the platform, and not Slack."""
    fallback: ModelEndpoint | None = None
    """The model that answers while the first one cannot be reached."""
    directory_file: Path | None = None
    handbook_dir: Path | None = None
    page_url: str = ""
    real_models: str = ""
    """Lines for the banner: models that could take the rehearsal model's place, and the commands that use them."""
    standins: tuple[str, ...] = ()
    upkeep_jobs: tuple[Job, ...] = ()
    """Jobs that keep local services alive while the bot runs."""

    @property
    def workspace_url(self) -> str:
        return self.feishu.url if self.feishu else self.slack_api_url


@asynccontextmanager
async def open_services(settings: Settings, *, start: bool = True) -> AsyncIterator[Services]:
    """Open the real services in the settings; a local stand-in replaces each missing one. Without `start`, nothing is
    started or created, and `redis_url` is empty if no Redis exists yet."""
    real = {"workspace": settings.has_real_workspace, "model": settings.has_real_model, "mail": settings.has_real_mail}
    services = [name for name, is_real in real.items() if not is_real]
    missing = (*([] if settings.redis_url else ["redis"]), *services)
    async with AsyncExitStack() as stack:
        if not start:
            url = ""
            with suppress(NoInstallationError):
                url, _ = await stack.enter_async_context(open_redis(settings))
            yield build_services(settings, url, {}, missing)
            return
        require_writable_folder(settings.data_dir)
        lock = None
        has_stateful_standin = bool({"workspace", "mail"} & {*services})  # the rehearsal model keeps no state
        if has_stateful_standin or not settings.redis_url:
            page = f"http://{LOOPBACK}:{settings.local_port}/" if "workspace" in services else ""
            folder, language = settings.data_dir.absolute(), detect_terminal_language()
            claim = claim_folder(folder, alone=has_stateful_standin, address=page, language=language)
            lock = await stack.enter_async_context(claim)
        redis_url, upkeep = await stack.enter_async_context(open_redis(settings, make=True))
        local = await stack.enter_async_context(_run_standins(settings, services, redis_url, lock)) if services else {}
        yield replace(build_services(settings, redis_url, local, missing), upkeep_jobs=upkeep)


def build_services(settings: Settings, redis_url: str, local: dict[str, str], standins: tuple[str, ...]) -> Services:
    def get_secret_text(value: SecretStr | None) -> str:
        return value.get_secret_value() if value is not None else ""

    feishu_url = settings.feishu_api_url or FEISHU_URLS[settings.feishu_domain]
    feishu_secret = get_secret_text(settings.feishu_app_secret)
    feishu = FeishuApp(url=feishu_url, app_id=settings.feishu_app_id, secret=feishu_secret)
    if "feishu_url" in local:
        feishu = FeishuApp(url=local["feishu_url"], app_id=local["feishu_app_id"], secret=local["app_token"])
    workspace = "workspace" in standins
    model = ModelEndpoint(
        url=settings.openai_base_url,
        key=get_secret_text(settings.openai_api_key) or "none",
        name=settings.openai_model,
        api=settings.openai_api,
        effort=settings.openai_reasoning,
    )
    fallback = None
    if name := settings.openai_fallback_model:  # what is set for one address, its key above all, goes to no other
        url = settings.openai_fallback_base_url or model.url
        fallback = replace(model, name=name) if url == model.url else ModelEndpoint(url=url, key="none", name=name)
        if settings.openai_fallback_api_key:
            fallback = replace(fallback, key=get_secret_text(settings.openai_fallback_api_key))
    if "model" in standins:
        model = ModelEndpoint(url=local.get("openai_base_url", ""), key="rehearsal", name="rehearsal")
    return Services(
        redis_url=redis_url,
        slack_api_url=local.get("slack_api_url", "") if workspace else settings.slack_api_url,
        bot_token=local.get("bot_token", "") if workspace else get_secret_text(settings.slack_bot_token),
        app_token=local.get("app_token", "") if workspace else get_secret_text(settings.slack_app_token),
        signing_secret=get_secret_text(settings.slack_signing_secret),
        feishu=feishu if settings.has_real_feishu or "feishu_url" in local else None,
        model=model,
        fallback=fallback,
        smtp_url=local.get("smtp_url", "") if "mail" in standins else get_secret_text(settings.smtp_url),
        directory_file=settings.directory_file or (DEMO / "directory.toml" if workspace else None),
        handbook_dir=settings.handbook_dir or (DEMO / "handbook" if workspace else None),
        page_url=local.get("page", ""),
        real_models=local.get("real_models", ""),
        standins=standins,
    )


@asynccontextmanager
async def _run_standins(
    settings: Settings, services: list[str], redis_url: str, lock: int | None
) -> AsyncIterator[dict[str, str]]:
    """Run the stand-ins in a child process that speaks the real protocols. The child always ends with this process, and
    holds the folder's `lock` until then."""
    tokens = {"bot_token": f"xoxb-local-{secrets.token_hex(12)}", "app_token": f"xapp-local-{secrets.token_hex(12)}"}
    command = [
        sys.executable, "-m", "bot.dev.standins",
        "--data", str(settings.data_dir), "--port", str(settings.local_port),
        *(f"--{name}" for name in services), "--chat", settings.local_chat,
    ]  # fmt: skip
    variables = {"STANDIN_BOT_TOKEN": tokens["bot_token"], "STANDIN_APP_TOKEN": tokens["app_token"]}
    variables["STANDIN_JOURNAL"] = redis_url  # may contain a password
    child = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,  # Ctrl-C is for this process, which ends the child after its own last message
        env={**os.environ, **variables},
        pass_fds=() if lock is None else (lock,),
    )
    try:
        yield {**await _wait_for_standins(child), **tokens}
    finally:
        if child.returncode is None:
            child.terminate()
        try:
            await asyncio.wait_for(child.wait(), END_S)
        except TimeoutError:
            child.kill()
            await child.wait()


async def _wait_for_standins(child: asyncio.subprocess.Process) -> dict[str, str]:
    """Wait for the addresses that the child announces. Raises `LocalStartError`."""
    if child.stdout is None:
        raise LocalStartError("the local stand-ins have no output")
    try:
        line = await asyncio.wait_for(child.stdout.readline(), READY_S)
    except TimeoutError as error:
        raise LocalStartError(f"the local stand-ins did not start within {READY_S:.0f} s") from error
    if not line:
        with suppress(TimeoutError):  # a signal to a child that is just ending would make asyncio warn
            await asyncio.wait_for(child.wait(), END_S)
        raise LocalStartError("the local stand-ins could not start (see above)")
    return dict(json.loads(line))
