"""Every setting, read once from the environment and `.env`.

Secrets are `SecretStr`: they print as asterisks wherever a setting is shown.
"""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from bot.errors import SettingsWrong

MASK = "••••••"
_IN_URLS = re.compile(r"(?<=://)[^/@\s]+(?=@)|(?<=[?&]password=)[^&\s]+|(?<=[?&]sentinel_password=)[^&\s]+")
"""What addresses carry that is nobody's business: user and password."""
REDIS = ("redis://", "rediss://", "unix://", "redis+sentinel://", "rediss+sentinel://")


class Settings(BaseSettings):
    """The environment variable of a setting is its name in capitals."""

    model_config = SettingsConfigDict(env_file=".env", extra="ignore", frozen=True, env_ignore_empty=True)

    slack_bot_token: SecretStr | None = None
    """`xoxb-…`. With `slack_app_token` (or the signing secret in HTTP mode) set, this is the real Slack."""
    slack_app_token: SecretStr | None = None
    """`xapp-…` with `connections:write`: Socket Mode."""
    slack_signing_secret: SecretStr | None = None
    """HTTP mode only: what requests are verified with."""
    slack_mode: Literal["socket", "http"] = "socket"
    """Socket Mode needs no public address; HTTP mode scales behind a load balancer."""
    slack_api_url: str = "https://slack.com/api/"
    http_host: str = "127.0.0.1"
    """HTTP mode: the address to listen on."""
    http_port: int = Field(default=3000, ge=1, le=65535)
    """HTTP mode: the port to listen on; Slack sends to `/slack/events`."""
    post_spacing_ms: int = Field(default=1050, ge=1)
    """Slack takes about one message a second and channel; this spacing is shared by all processes (ms)."""

    redis_url: str = ""
    """`redis://host:6379/0`, `rediss://` (TLS) or `unix:///socket`; a cluster: `redis://host:6379,host:6379?cluster=1`;
    Sentinels: `redis+sentinel://user:password@host:26379,host:26379/service/0?sentinel_username=…&sentinel_password=…`
    (`rediss+sentinel://`: TLS). Empty: an embedded server in `data_dir`, for one machine."""
    allow_non_durable: bool = False
    """Start even if the Redis in use may lose data. For experiments only."""

    openai_base_url: str = ""
    """Any OpenAI-compatible endpoint. Empty with an `openai_api_key`: OpenAI's own."""
    openai_api_key: SecretStr | None = None
    """Without key and base URL the local rehearsal model answers: rules, not a model."""
    openai_model: str = "gpt-5-mini"
    react_style: Literal["auto", "native", "text", "json"] = "native"
    """How the model calls tools: by its endpoint's tool calls, as text (Thought / Action), or as one JSON object.
    `auto`: asks the model what it can do, and takes the first of native, json and text that works."""

    smtp_url: SecretStr | None = None
    """`smtp://user:password@host:587` (STARTTLS where offered) or `smtps://…:465`. Without it: a local mailbox."""
    mail_from: str = "countersign@example.com"
    """Sender of every mail."""

    directory_file: Path | None = None
    """TOML or CSV with what the chat platform does not know of people: manager, roles, department, title."""
    policy_file: Path | None = None
    """TOML with `[[policy]]` rows that go before those of the forms."""
    finance_threshold: str = "1000"
    """Expenses of this amount or more, in CNY, also go to finance."""
    annual_leave_days: str = "10"
    """A year's allowance (days), for whom the directory says nothing else."""
    calendar_country: str = "CN"
    """Whose public holidays: ISO 3166 code, with a region where they differ (`DE-BY`)."""
    calendar_file: Path | None = None
    """TOML with days that are worked or off in this company, whatever the calendar says."""

    workflow_engine: Literal["embedded", "flowable", "camunda"] = "embedded"
    """Who keeps requests: this program with Redis, Flowable 6/7, or Camunda 7 (also Operaton)."""
    engine_url: str = ""
    """Flowable: `https://host/flowable-rest/service` or `…/process-api`; Camunda: `https://host/engine-rest`."""
    engine_user: str = ""
    """Of the engine, for this program alone: the engine itself does not check who may decide what."""
    engine_password: SecretStr | None = None
    engine_users_file: Path | None = None
    """TOML, `[users]`: e-mail address or person id = user of the engine. Others are known there by their own id."""
    engine_timeout_seconds: float = Field(default=10, gt=0)
    """How long to wait for an answer of the engine (s)."""

    advice: Literal["off", "on"] = "off"
    """`on`: the model drafts a suggestion with reasons for whoever decides on a request. It is labelled as such, shown
    to them only, and decides nothing."""
    handbook_dir: Path | None = None
    """Folder of Markdown files (`.md`, UTF-8; at most 200 of 256 KiB): the company's rules. The model searches and
    reads them, and a suggestion weighs a request against them. The local workspace has one of its own."""
    think_tool: Literal["off", "on"] = "off"
    """`on`: the model has a tool to write a thought down with, which has no effect; it stays in the run's record."""
    persona_file: Path | None = None
    """In which tone and language the bot answers, as a text (UTF-8), at most 2,000 characters. It changes no rule, and
    nothing of what needs a button."""
    approval_ttl_hours: float = Field(default=72, gt=0)
    """How long a card waits; people are reminded at half time (hours)."""
    steps: Literal["replies", "plan", "quiet"] = "replies"
    """How steps are shown: a threaded reply each, one live message, or not at all."""
    history_tokens: int = Field(default=8_000, ge=500)
    """How much of a conversation the model is reminded of (tokens), the summary of its older turns included."""
    history_days: int = Field(default=30, ge=1)
    """How long a silent conversation is remembered (days)."""
    run_seconds: float = Field(default=180, gt=0)
    """Running time of one message; waiting for people does not count (s)."""
    run_tokens: int = Field(default=200_000, ge=1_000)
    """What one message may cost, in and out, as the model's endpoint counts (tokens)."""
    lease_seconds: float = Field(default=20, ge=0.5)
    """How soon another process takes over what a dead one was doing (s)."""
    concurrency: int = Field(default=64, ge=1)
    """Conversations handled at once by one process."""

    data_dir: Path = Path(".countersign")
    """Where the embedded Redis and the local stand-ins keep their state."""
    local_port: int = Field(default=8484, ge=1, le=65534)
    """Where the local workspace page answers; the mail sink takes the next port."""
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    log_format: Literal["auto", "json", "console"] = "auto"
    """`auto`: coloured on a terminal, JSON elsewhere."""

    @property
    def real_slack(self) -> bool:
        return self.slack_bot_token is not None

    @property
    def real_model(self) -> bool:
        return bool(self.openai_base_url) or self.openai_api_key is not None

    @property
    def real_mail(self) -> bool:
        return self.smtp_url is not None

    def shown(self) -> dict[str, str]:
        """Every setting as it may be shown to anybody: secrets masked."""
        return {name: _masked(value) for name, value in self}


def _masked(value: object) -> str:
    if isinstance(value, SecretStr):
        return MASK if value.get_secret_value() else ""
    return "" if value is None else _IN_URLS.sub(MASK, str(value))


def read() -> Settings:
    """The settings. Raises `SettingsWrong` naming the variable and what it should be."""
    try:
        settings = Settings()
    except ValidationError as error:
        wrong = "; ".join(f"{str(one['loc'][0]).upper()}: {one['msg']}" for one in error.errors())
        raise SettingsWrong(wrong) from error
    _check(settings)
    return settings


def _check(settings: Settings) -> None:
    _check_slack(settings)
    _check_urls(settings)
    _check_engine(settings)
    if not _is_amount(settings.finance_threshold):
        raise SettingsWrong("FINANCE_THRESHOLD should be an amount of 0 or more, like 1000 or 1000.50")
    if not _is_amount(settings.annual_leave_days) or Decimal(settings.annual_leave_days) % Decimal("0.5"):
        raise SettingsWrong("ANNUAL_LEAVE_DAYS should be a number of days of 0 or more, like 10 or 12.5")
    if "@" not in settings.mail_from:
        raise SettingsWrong("MAIL_FROM should be an e-mail address, like countersign@example.com")


def _check_slack(settings: Settings) -> None:
    if not settings.real_slack:
        if settings.slack_app_token is not None:
            raise SettingsWrong(
                "SLACK_APP_TOKEN is set but SLACK_BOT_TOKEN is not; set both, or neither for the local workspace"
            )
        return
    if settings.slack_mode == "socket" and settings.slack_app_token is None:
        raise SettingsWrong("SLACK_APP_TOKEN is missing: Socket Mode needs an xapp-… token with connections:write")
    if settings.slack_mode == "http" and settings.slack_signing_secret is None:
        raise SettingsWrong("SLACK_SIGNING_SECRET is missing: HTTP mode verifies every request with it")


def _check_engine(settings: Settings) -> None:
    if settings.workflow_engine == "embedded":
        return
    if not settings.engine_url:
        raise SettingsWrong(f"ENGINE_URL is missing: WORKFLOW_ENGINE={settings.workflow_engine} needs its address")
    if ":" in settings.engine_user:
        raise SettingsWrong("ENGINE_USER should not contain a colon")


def _check_urls(settings: Settings) -> None:
    """Addresses are named, not repeated: they may hold a password."""
    smtp = settings.smtp_url.get_secret_value() if settings.smtp_url else ""
    web = ("http://", "https://")
    for name, value, beginnings in (
        ("REDIS_URL", settings.redis_url, REDIS),
        ("SMTP_URL", smtp, ("smtp://", "smtps://")),
        ("SLACK_API_URL", settings.slack_api_url, web),
        ("OPENAI_BASE_URL", settings.openai_base_url, web),
        ("ENGINE_URL", settings.engine_url, web),
    ):
        if value and not value.startswith(beginnings):
            raise SettingsWrong(f"{name} should begin with {' or '.join(beginnings)}")


def _is_amount(text: str) -> bool:
    try:
        amount = Decimal(text)
    except InvalidOperation:
        return False
    return amount.is_finite() and amount >= 0
