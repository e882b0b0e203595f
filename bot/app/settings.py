"""All settings, read once from the environment and `.env`.

Secrets are `SecretStr`: they print as asterisks wherever a setting is shown."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import time
from decimal import Decimal, InvalidOperation
from email.utils import parseaddr
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import unquote, urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from dotenv import dotenv_values
from pydantic import BeforeValidator, Field, SecretStr, ValidationError, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from bot.app.setting_names import EnvironmentName, find_variable_references, find_wrong_names, read_env_file
from bot.core.errors import SettingsError
from bot.core.redaction import MIN_SECRET_LENGTH, is_secret_name, read_url_secrets, remember_secrets, spell_secret

ENV_FILE = Path(".env")
"""The file of settings, in the folder where the program was started."""
MASK = "••••••"
PATH_VARIABLES = frozenset({"PWD", "OLDPWD", "SSH_AUTH_SOCK"})
"""Names that look secret but hold folders or sockets."""
_TOKEN_LIKE = re.compile(r"(?=\D*\d)(?=[\W\d_]*[^\W\d_])[^.:,]{16,}")
"""A part of an address that counts as a secret, because paths can contain tokens: long, with letters and digits and
without dot or colon, so no host, port or file."""
REDIS = ("redis://", "rediss://", "unix://", "redis+sentinel://", "rediss+sentinel://")

_MAIL_ADDRESS = re.compile(r"[!-?A-~]+@([^\s@.]+\.)*[^\s@.]+")
_S3_ADDRESS = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[A-Za-z0-9!_.*'()/-]{0,200})?")

Capture = Literal["false", "true", "no_content", "span_only", "event_only", "span_and_event"]
"""The values that OpenTelemetry instrumentations accept. Here, content goes into spans or nowhere."""


class Settings(BaseSettings, allow_inf_nan=False):
    """The environment variable of each setting is its name in capitals."""

    model_config = SettingsConfigDict(env_file=ENV_FILE, extra="ignore", frozen=True, env_ignore_empty=True)

    @model_validator(mode="before")
    @classmethod
    def remove_quotes(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Remove the quotes around a value: a shell takes them off, but `docker run --env-file` passes them on."""
        return {
            name: value[1:-1] if isinstance(value, str) and value[1:] and value[0] == value[-1] in "'\"" else value
            for name, value in values.items()
        }

    slack_bot_token: SecretStr | None = None
    """`xoxb-…`. With `slack_app_token` (or the signing secret in HTTP mode) set, this is the real Slack."""
    slack_app_token: SecretStr | None = None
    """`xapp-…` with `connections:write`: Socket Mode."""
    slack_signing_secret: SecretStr | None = None
    """HTTP mode only: what requests are verified with."""
    slack_mode: Literal["socket", "http"] = "socket"
    """Socket Mode needs no public address; HTTP mode scales behind a load balancer."""
    slack_api_url: str = "https://slack.com/api/"
    """For tests and proxies."""
    feishu_app_id: str = ""
    """`cli_…`: the app on Feishu or Lark. With `feishu_app_secret` set too, this is the real Feishu, in place of
    Slack."""
    feishu_app_secret: SecretStr | None = None
    """Of `feishu_app_id`."""
    feishu_domain: Literal["feishu", "lark"] = "feishu"
    """Where the app was made: open.feishu.cn, or open.larksuite.com (outside of China)."""
    feishu_mode: Literal["long", "http"] = "long"
    """The long connection needs no public address; HTTP mode scales behind a load balancer."""
    feishu_encrypt_key: SecretStr | None = None
    """HTTP mode only: what requests are encrypted and verified with."""
    feishu_verification_token: SecretStr | None = None
    """HTTP mode only: what every request has to carry besides. Empty: not looked at."""
    feishu_api_url: str = ""
    """For tests and proxies: another address than the domain's."""
    http_host: str = "127.0.0.1"
    """HTTP mode: the address to listen on."""
    http_port: int = Field(default=3000, ge=1, le=65535)
    """HTTP mode: the port to listen on; Slack sends to `/slack/events`, Feishu to `/feishu/events`."""
    post_spacing_ms: int = Field(default=1050, ge=1)
    """Slack takes about one message a second and channel; this spacing is shared by all processes (ms)."""

    redis_url: str = ""
    """`redis://host:6379/0`, `rediss://` (TLS) or `unix:///socket`; a cluster: `redis://host:6379,host:6379?cluster=1`;
    Sentinels: `redis+sentinel://user:password@host:26379,host:26379/service/0?sentinel_username=…&sentinel_password=…`
    (`rediss+sentinel://`: TLS). Empty: an embedded server in `data_dir`, for one machine."""
    redis_confirm: Literal["auto", "server", "replica", "disk"] = "auto"
    """The store that must have a message or a press before it is acknowledged, and an effect before it begins. `auto`:
    every replica that follows, as long as there is one; `replica`: the same, one at least; `server`: nothing but the
    server; `disk`: its disk, by WAITAOF (Redis 7.2 or Valkey), which takes up to a second where `appendfsync` is
    `everysec`, and is refused where the server answers too early."""
    allow_non_durable: bool = False
    """Start even if the Redis in use may lose data. For experiments only."""

    openai_base_url: str = ""
    """Any OpenAI-compatible endpoint. Empty with an `openai_api_key`: OpenAI's own."""
    openai_api_key: SecretStr | None = None
    """Without key and base URL the local rehearsal model answers: rules, not a model. Without Slack, a key that only
    the environment has is named at the start, and used once `openai_model` is set too."""
    openai_model: str = "gpt-6.1-terra"
    """The model's name at its endpoint."""
    openai_api: Literal["auto", "chat", "responses"] = "auto"
    """How the endpoint is asked: by chat completions or by Responses. `auto`: as it says itself when it refuses one,
    kept for a week; OpenAI and Azure are asked by Responses first, all others by chat completions."""
    openai_reasoning: Literal["none", "minimal", "low", "medium", "high", "auto"] = "auto"
    """How much the model thinks before it answers: more is slower and dearer. `auto`: as its endpoint does by
    itself."""
    reply_seconds: float = Field(default=60, gt=0)
    """How long one reply of the model may take, within `run_seconds` (s): a model on a machine of one's own needs more.
    One that did not come in time is asked for again after as long a pause, and is then streamed: whatever arrives of it
    gives it that time anew."""
    openai_retries: int = Field(default=1, ge=0, le=5)
    """How often a call that may work later (408, 409, 429, 5xx, no connection) is asked again before the model is taken
    to be down: within its time, and as the endpoint's `Retry-After` says."""
    openai_fallback_model: str = ""
    """Asked while the first cannot be reached, is overloaded or is not known at its address; never for what the first
    refuses. It has to speak the same `react_style`: a run keeps its own."""
    openai_fallback_base_url: str = ""
    """Empty: the address of the first."""
    openai_fallback_api_key: SecretStr | None = None
    """Empty: at the address of the first its key; anywhere else none, because that key is nobody else's business."""
    prices_file: Path | None = None
    """TOML: what a model's tokens cost, per million, in one currency (example: `deploy/env.example`). Without it tokens
    are counted, and what they cost is not known."""
    budget_tokens_per_day: int | None = Field(default=None, ge=1)
    """The most tokens that one person's messages may use in a day, in and out. Empty: as much as they like."""
    budget_per_day: str = ""
    """The same in money, in the currency of `prices_file`, which must know the models in use. Empty: no limit."""
    company_timezone: str = "Asia/Shanghai"
    """At whose midnight a day of use ends and a budget begins anew: an IANA name."""
    react_style: Literal["auto", "native", "text", "json"] = "native"
    """How the model calls tools: by its endpoint's tool calls, as text (Thought / Action), or as one JSON object.
    `auto`: asks the model for one call, and takes native if it makes the call, text if not."""

    smtp_url: SecretStr | None = None
    """`smtp://user:password@host:587` (STARTTLS where offered) or `smtps://…:465`. Without it: a local mailbox."""
    mail_from: str = "countersign@example.com"
    """Sender of every mail."""

    directory_file: Path | None = None
    """TOML or CSV with what the chat platform does not know of people, by e-mail address: manager, roles, department,
    title. Read again when it changes."""
    policy_file: Path | None = None
    """TOML with `[[policy]]` rows that go before those of the forms: who approves what, and where authors may
    choose."""
    finance_threshold: str = "1000"
    """Expenses of this amount or more, and all in another currency than CNY, need everybody in finance."""
    annual_leave_days: str = "10"
    """A year's allowance (days), for whom the directory says nothing else."""
    calendar_country: str = "CN"
    """Whose public holidays: ISO 3166 code, with a region where they differ (`DE-BY`)."""
    calendar_file: Path | None = None
    """TOML with days that are worked or off in this company, whatever the calendar says."""

    workflow_engine: Literal["embedded", "operaton", "camunda", "flowable"] = "embedded"
    """The engine that keeps requests: this program with Redis, Operaton, Camunda 7, or Flowable 7."""
    engine_url: str = ""
    """Operaton, Camunda: `https://host/engine-rest`; Flowable: `https://host/flowable-rest/service`, `/process-api`."""
    engine_user: str = ""
    """Of the engine, for this program alone: the engine itself does not check who may decide what."""
    engine_password: SecretStr | None = None
    """Of `engine_user`."""
    engine_users_file: Path | None = None
    """TOML, `[users]`: e-mail address or person id = user of the engine. Others are known there by their own id."""
    engine_timeout_seconds: float = Field(default=10, gt=0)
    """How long to wait for an answer of the engine (s)."""

    advice: Literal["off", "on"] = "off"
    """`on`: the model drafts a suggestion with reasons for whoever decides on a request. It is labelled as such, shown
    to them only, and decides nothing."""
    handbook_dir: Path | None = None
    """Folder of Markdown files (`.md`, UTF-8; at most 200 of 256 KiB): the company's rules. The model searches and
    reads them, and a suggestion weighs a request against them. Changes are read at once; hidden files are skipped, and
    links out of the folder refused. The local workspace has one of its own."""
    files_dir: Path | None = None
    """Where the files that people send are kept, each under its SHA-256: one folder for all processes. Empty: the
    folder `files` in `DATA_DIR`."""
    files_bucket: str = ""
    """`s3://bucket/prefix`: the files are kept in this bucket of an S3-compatible store, and not in a folder. Needs the
    extra `s3`; the keys need ListBucket, GetObject, PutObject and DeleteObject."""
    files_bucket_endpoint: str = ""
    """`https://host`: where the store is, if it is not AWS's."""
    files_bucket_region: str = ""
    """The bucket's region. Empty: as the variables and files of AWS's own programs say."""
    files_bucket_style: Literal["auto", "path", "virtual"] = "auto"
    """Whether the bucket stands in the path or in the host's name. `auto`: in the path of `files_bucket_endpoint`; some
    stores want `virtual`."""
    files_bucket_access_key: str = ""
    """Which key asks. Empty: found as AWS's own programs do (variables, profile, role of the machine)."""
    files_bucket_secret_key: SecretStr | None = None
    """Of `files_bucket_access_key`."""
    files_mb: float = Field(default=20, gt=0, le=100)
    """The largest file that is taken (MB)."""
    files_mb_per_day: float = Field(default=200, gt=0)
    """The most that is taken of one person on one day in UTC (MB); a file counts at least 0.1."""
    files_days: int = Field(default=730, ge=1)
    """How long a file is kept (days); its name, size and hash stay in the request's record. A file on no request
    is deleted after 30 days."""
    openai_vision: Literal["off", "on"] = "off"
    """`on`: the model sees pictures (PNG, JPEG, GIF, WebP): it is shown those that people send, and what it reads of
    amount, date and merchant is proposed, marked as read from the picture."""
    think_tool: Literal["off", "on"] = "off"
    """`on`: the model has a tool to write a thought down with, which has no effect; it stays in the run's record."""
    mcp_file: Path | None = None
    """TOML with `[servers.NAME]` tables: MCP servers whose tools the model may use, and who presses a button for
    which; `${NAME}` in it names a variable (example: `deploy/mcp.example.toml`)."""
    tools_most: int = Field(default=30, ge=16)
    """So many tools are offered for one message; if there are more, those that go best with it, and the model can look
    for further ones."""
    persona_file: Path | None = None
    """In which tone and language the bot answers, as a text (UTF-8), at most 2,000 characters. It changes no rule, and
    nothing of what needs a button."""
    approval_ttl_hours: float = Field(default=72, gt=0)
    """How long a card waits (hours): 24 hours are a working day of whoever is asked. Reminders go out at half time."""
    morning_list: str = Field(default="", pattern=r"^(([01]\d|2[0-3]):[0-5]\d)?$")
    """When everybody gets a list of what waits for them and for whom, on working days (`08:30`, in their own time
    zone); each can switch it off. Empty: never."""
    steps: Literal["plan", "replies", "quiet"] = "plan"
    """How steps are shown: in one message that is rewritten, a reply each, or not at all."""
    history_tokens: int = Field(default=8_000, ge=500)
    """How much of a conversation the model is reminded of (tokens), the summary of its older turns included. The calls
    and results of its last three messages come on top: at most 4,500."""
    history_days: int = Field(default=30, ge=1)
    """How long a silent conversation is remembered (days)."""
    runs_days: int = Field(default=7, ge=1)
    """How long a run is kept after its end, with its message, calls and answer (days)."""
    cards_days: int = Field(default=30, ge=1)
    """How long a card is kept after its end, so that a late press gets its answer (days)."""
    journal_days: int = Field(default=90, ge=1)
    """How long the journal is kept, which `countersign tail` shows (days)."""
    max_steps: int = Field(default=16, ge=1, le=100)
    """Replies of the model that call tools, for one message. Calls of tools may be twice as many, and 20 at least."""
    run_seconds: float = Field(default=180, gt=0)
    """Running time of one message; waiting for people does not count (s)."""
    run_tokens: int = Field(default=200_000, ge=1_000)
    """The most tokens that one message may use, in and out, as the model's endpoint counts them."""
    lease_seconds: float = Field(default=20, ge=0.5)
    """How soon another process takes over what a dead one was doing (s)."""
    concurrency: int = Field(default=64, ge=1)
    """Conversations handled at once by one process."""

    data_dir: Path = Path(".countersign")
    """Where the embedded Redis and the local stand-ins keep their state: one bot's alone if it has a local workspace or
    mailbox."""
    local_port: int = Field(default=8484, ge=1, le=65534)
    """Where the local workspace page answers; the mail sink takes the next port."""
    local_chat: Literal["slack", "feishu"] = "slack"
    """Protocol and looks of the local workspace: Slack, or Feishu."""
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    """The least severe lines that are written."""
    log_format: Literal["auto", "json", "console"] = "auto"
    """`auto`: coloured on a terminal, JSON elsewhere."""
    health_port: int = Field(default=0, ge=0, le=65535)
    """Where `/metrics` (Prometheus), `/healthz` and `/readyz` answer, of this one process. 0: nowhere."""
    health_host: str = "127.0.0.1"
    """The address that `health_port` listens on. Its answers name no person and no request."""
    redact_personal: Literal["off", "on"] = "off"
    """`on`: numbers of phones, identity cards, bank accounts and cards stay out of logs, journal and exports too."""

    traces: Literal["off", "otlp"] = "off"
    """`otlp`: every run that ends becomes OpenTelemetry spans, sent by OTLP over HTTP in the background. Needs the
    extra `ops`. Further OTEL_* variables (certificates, compression, time-outs, OTEL_RESOURCE_ATTRIBUTES) are read by
    the exporter from the environment."""
    otel_exporter_otlp_endpoint: str = ""
    """Where to: a base address, `/v1/traces` is added. Empty: `http://localhost:4318`."""
    otel_exporter_otlp_traces_endpoint: str = ""
    """The whole address instead."""
    otel_exporter_otlp_headers: SecretStr | None = None
    """`name=value,name=value`, URL-encoded: what the collector wants to know its senders by."""
    otel_service_name: str = "countersign"
    """The name under which spans are sent."""
    otel_instrumentation_genai_capture_message_content: Annotated[Capture, BeforeValidator(str.lower)] = "false"
    """`true`, `span_only` or `span_and_event`: what people and models write goes into the spans too, redacted as logs
    are."""

    @property
    def captures_content(self) -> bool:
        return self.otel_instrumentation_genai_capture_message_content in ("true", "span_only", "span_and_event")

    @property
    def morning_time(self) -> time | None:
        """The local time of the morning lists; None if they are off."""
        return time.fromisoformat(self.morning_list) if self.morning_list else None

    @property
    def has_real_slack(self) -> bool:
        return self.slack_bot_token is not None

    @property
    def has_real_feishu(self) -> bool:
        return bool(self.feishu_app_id)

    @property
    def has_real_workspace(self) -> bool:
        return self.has_real_slack or self.has_real_feishu

    @property
    def has_real_model(self) -> bool:
        return bool(self.openai_base_url) or self.openai_api_key is not None

    @property
    def has_real_mail(self) -> bool:
        return self.smtp_url is not None

    @property
    def secrets(self) -> frozenset[str]:
        """Every secret in the settings, as it is sent, including those inside addresses."""
        hidden = [value.get_secret_value() for _, value in self if isinstance(value, SecretStr)]
        addresses = [*hidden, *(value for _, value in self if isinstance(value, str))]
        inside = [secret for one in addresses if "://" in one for secret in read_url_secrets(one)]
        headers = self.otel_exporter_otlp_headers.get_secret_value() if self.otel_exporter_otlp_headers else ""
        values = [unquote(one.partition("=")[2].strip()) for one in headers.split(",")]
        words = [one.partition(" ")[2].strip() for one in values]  # Bearer …
        return frozenset(one for one in (*hidden, *inside, *values, *words) if one)

    def list_masked_values(self) -> dict[str, str]:
        """List every setting as an administrator may see it. Known secrets of the settings and the environment are
        masked in every spelling, also inside other values."""
        others = [
            value for name, value in load_environment().items() if is_secret_name(name) and name not in PATH_VARIABLES
        ]
        spelled = {spelling for one in (*self.secrets, *others) for spelling in spell_secret(one)}
        secrets = sorted((one for one in spelled if len(one) >= MIN_SECRET_LENGTH), key=len, reverse=True)
        return {name: _mask_value(value, secrets) for name, value in self}


_KNOWN_NAMES = frozenset(name.upper() for name in Settings.model_fields)


class IsolatedSettings(Settings):
    """Settings from its arguments alone; this machine's environment has no influence."""

    @classmethod
    def settings_customise_sources(
        cls, settings_cls: type[BaseSettings], init_settings: PydanticBaseSettingsSource, *args: Any, **others: Any
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return (init_settings,)


def _mask_value(value: object, secrets: Iterable[str]) -> str:
    """Mask secrets in a value. Hosts, ports and short names of an address stay; user, password, query values, fragment
    and token-like parts of the path do not. If the parts cannot be told apart, only the scheme stays."""
    if isinstance(value, SecretStr):
        return MASK if value.get_secret_value() else ""
    text = "" if value is None else str(value)
    for secret in secrets:
        text = text.replace(secret, MASK)
    scheme, between, rest = text.partition("://")
    if not between:
        return text
    user, at, place = rest.rpartition("@")
    if set(user) & set("/?#"):
        return f"{scheme}://{MASK}"
    place, hash_, _ = place.partition("#")
    place, mark, query = place.partition("?")
    parts = [MASK if _TOKEN_LIKE.fullmatch(part) else part for part in place.split("/")]
    names = [f"{name}={MASK}" if given else name for name, given, _ in (one.partition("=") for one in query.split("&"))]
    masked = (MASK + at if at else "") + "/".join(parts) + mark + "&".join(names) + (hash_ and f"#{MASK}")
    return f"{scheme}://{masked}"


def load_environment() -> dict[str, str]:
    """Load the variables in `.env` and the environment, for files of the settings that refer to them."""
    return {**{name: value for name, value in dotenv_values(ENV_FILE).items() if value}, **os.environ}


def load_settings() -> Settings:
    """Load the settings. Their secrets are redacted from now on. An OPENAI_API_KEY that only the environment has may be
    there for another program: it is left out without a real workspace and without another OPENAI_ setting. Raises one
    `SettingsError` with each wrong name in `.env` and each unreadable value, and what it should be."""
    names, wrong = read_env_file(ENV_FILE), list[str]()  # first: it fails if the file is unreadable
    settings: Settings | None = None
    try:
        settings = Settings()
    except ValidationError as error:
        wrong = list_wrong_values(error)
    used = find_variable_references(ENV_FILE, _find_mcp_file(settings))
    wrong = [*find_wrong_names(names, _KNOWN_NAMES, used), *wrong]
    if wrong or settings is None:
        raise SettingsError("; ".join(wrong))
    require_valid_settings(settings)
    remember_secrets(settings.secrets, personal=settings.redact_personal == "on")
    chosen = {name for name in settings.model_fields_set if name.startswith("openai_")} - {"openai_api_key"}
    is_key_chosen = settings.has_real_workspace or chosen or "OPENAI_API_KEY" in map(str.upper, dotenv_values(ENV_FILE))
    return settings if is_key_chosen else settings.model_copy(update={"openai_api_key": None})


def list_wrong_values(error: ValidationError) -> list[str]:
    """Describe each unreadable value by what it should be. The morning list alone has a pattern."""
    wanted = {"string_pattern_mismatch": "a time like 08:30", "bool_parsing": "true or false"}
    return [
        f"{str(one['loc'][0]).upper()} should be "
        + (wanted.get(one["type"]) or one["msg"].removeprefix("Input should be ").partition(", unable to")[0])
        for one in error.errors()
    ]


def find_misspelt_variables() -> tuple[str, ...]:
    """Find near misspellings of settings in the environment and describe them. All programs of the machine share it, so
    this is a warning and no error."""
    used = find_variable_references(_find_mcp_file(None))
    return tuple(find_wrong_names(map(EnvironmentName, sorted(os.environ)), _KNOWN_NAMES, used))


def _find_mcp_file(settings: Settings | None) -> Path | None:
    """Find the file of MCP servers: the variables that it refers to are in use, whatever their names."""
    named = settings.mcp_file if settings else load_environment().get("MCP_FILE")
    return Path(named) if named else None


def require_valid_settings(settings: Settings) -> None:
    """Check the values against one another. Raises SettingsError."""
    _require_slack_tokens(settings)
    _require_feishu_app(settings)
    _require_known_schemes(settings)
    if settings.workflow_engine != "embedded":
        if not settings.engine_url:
            raise SettingsError(f"ENGINE_URL is missing: WORKFLOW_ENGINE={settings.workflow_engine} needs its address")
        if ":" in settings.engine_user:
            raise SettingsError("ENGINE_USER should not contain a colon")
    if settings.files_bucket:
        if not _S3_ADDRESS.fullmatch(settings.files_bucket):
            raise SettingsError("FILES_BUCKET should be an address like s3://bucket/prefix")
        if settings.files_dir is not None:
            raise SettingsError("FILES_BUCKET and FILES_DIR are both set: files have one place, so set one of them")
        if bool(settings.files_bucket_access_key) != (settings.files_bucket_secret_key is not None):
            raise SettingsError("FILES_BUCKET_ACCESS_KEY and FILES_BUCKET_SECRET_KEY: set both, or neither")
    _require_model_settings(settings)
    if not _is_amount(settings.finance_threshold):
        raise SettingsError("FINANCE_THRESHOLD should be an amount of 0 or more, like 1000 or 1000.50")
    if not _is_amount(settings.annual_leave_days) or Decimal(settings.annual_leave_days) % Decimal("0.5"):
        raise SettingsError("ANNUAL_LEAVE_DAYS should be a number of days of 0 or more, like 10 or 12.5")
    if not _MAIL_ADDRESS.fullmatch(parseaddr(settings.mail_from)[1]):
        raise SettingsError("MAIL_FROM should be an e-mail address, like countersign@example.com")


def _require_slack_tokens(settings: Settings) -> None:
    if not settings.has_real_slack:
        if settings.slack_app_token is not None:
            raise SettingsError(
                "SLACK_APP_TOKEN is set but SLACK_BOT_TOKEN is not; set both, or neither for the local workspace"
            )
        return
    assert settings.slack_bot_token is not None
    if settings.slack_bot_token.get_secret_value().startswith("xoxe"):
        raise SettingsError(
            "SLACK_BOT_TOKEN rotates (xoxe…): Slack would refuse it after 12 hours. Token rotation cannot be switched "
            "off again; make a new app from deploy/slack-manifest.yaml and use its xoxb-… token"
        )
    if settings.slack_mode == "socket" and settings.slack_app_token is None:
        raise SettingsError("SLACK_APP_TOKEN is missing: Socket Mode needs an xapp-… token with connections:write")
    if settings.slack_mode == "http" and settings.slack_signing_secret is None:
        raise SettingsError("SLACK_SIGNING_SECRET is missing: HTTP mode verifies every request with it")


def _require_feishu_app(settings: Settings) -> None:
    where = "developer console → your app → Credentials & Basic Info"
    if not settings.feishu_app_id:
        if settings.feishu_app_secret is not None:
            raise SettingsError(f"FEISHU_APP_SECRET is set but FEISHU_APP_ID is not; set both, or neither ({where})")
        return
    if settings.has_real_slack:
        raise SettingsError(
            "SLACK_BOT_TOKEN and FEISHU_APP_ID are both set: a bot is on one platform, so set one of them. The other "
            "platform needs a bot of its own, with a Redis of its own"
        )
    if not settings.feishu_app_id.startswith("cli_"):
        raise SettingsError(f"FEISHU_APP_ID should begin with cli_ ({where})")
    if settings.feishu_app_secret is None:
        raise SettingsError(f"FEISHU_APP_SECRET is missing: FEISHU_APP_ID is set and needs it ({where})")
    if settings.feishu_mode == "http" and settings.feishu_encrypt_key is None:
        raise SettingsError(
            "FEISHU_ENCRYPT_KEY is missing: HTTP mode verifies every request with it (developer console → your app → "
            "Events & Callbacks → Encryption strategy)"
        )


def _require_model_settings(settings: Settings) -> None:
    if settings.openai_fallback_model and not settings.has_real_model:
        raise SettingsError("OPENAI_FALLBACK_MODEL is set but there is no first model: set OPENAI_API_KEY too")
    alone = {"BASE_URL": settings.openai_fallback_base_url, "API_KEY": settings.openai_fallback_api_key}
    for name, value in alone.items():
        if value and not settings.openai_fallback_model:
            raise SettingsError(f"OPENAI_FALLBACK_{name} is set but OPENAI_FALLBACK_MODEL is not")
    if settings.budget_per_day and not _is_amount(settings.budget_per_day):
        raise SettingsError("BUDGET_PER_DAY should be an amount of 0 or more, like 2 or 0.50")
    if settings.budget_per_day and settings.prices_file is None:
        raise SettingsError("PRICES_FILE is missing: BUDGET_PER_DAY is counted by its prices")
    try:
        ZoneInfo(settings.company_timezone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise SettingsError("COMPANY_TIMEZONE should be an IANA name, like Asia/Shanghai or Europe/Berlin") from None


def _require_known_schemes(settings: Settings) -> None:
    """Check the schemes of addresses. The error names the setting instead of the address, which may contain a
    password."""
    smtp = settings.smtp_url.get_secret_value() if settings.smtp_url else ""
    web = ("http://", "https://")
    for name, value, beginnings in (
        ("REDIS_URL", settings.redis_url, REDIS),
        ("SMTP_URL", smtp, ("smtp://", "smtps://")),
        ("SLACK_API_URL", settings.slack_api_url, web),
        ("FEISHU_API_URL", settings.feishu_api_url, web),
        ("OPENAI_BASE_URL", settings.openai_base_url, web),
        ("OPENAI_FALLBACK_BASE_URL", settings.openai_fallback_base_url, web),
        ("ENGINE_URL", settings.engine_url, web),
        ("FILES_BUCKET_ENDPOINT", settings.files_bucket_endpoint, web),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", settings.otel_exporter_otlp_endpoint, web),
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", settings.otel_exporter_otlp_traces_endpoint, web),
    ):
        if value and not value.startswith(beginnings):
            raise SettingsError(f"{name} should begin with {' or '.join(beginnings)}")
        if value and name != "REDIS_URL" and not _is_readable_address(value):
            signs = "%2F for /, %23 for #, %3F for ? and %40 for @"
            raise SettingsError(f"{name} is not readable as an address: in its user and password write {signs}")


def _is_readable_address(url: str) -> bool:
    """Whether the address can be read. False if a password in it would be taken for another part; a parser's own error
    would repeat it."""
    try:
        parts = urlsplit(url)
        is_whole = bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return is_whole and ("@" in parts.netloc or "@" not in url)


def _is_amount(text: str) -> bool:
    try:
        amount = Decimal(text)
    except InvalidOperation:
        return False
    return amount.is_finite() and amount >= 0


def read_setting_file(setting: str, path: Path | None) -> str:
    """Read the file's text; empty without a file. Raises SettingsError."""
    try:
        return path.read_text(encoding="utf-8") if path else ""
    except OSError as error:
        raise SettingsError(f"{setting}: {path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError:
        raise SettingsError(f"{setting}: {path} is not UTF-8") from None


@contextmanager
def name_setting(setting: str) -> Iterator[None]:
    """Say which setting is at fault: a `ValueError` in the context becomes a SettingsError with this name."""
    try:
        yield
    except ValueError as wrong:
        raise SettingsError(f"{setting}: {wrong}") from wrong
