"""The configuration file of the MCP servers: how to reach each one, and which of its tools need a press."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from typing import Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from tools.local_host import is_local_host

NAME = re.compile(r"[a-z][a-z0-9]*(?:[_-][a-z0-9]+)*")
"""The name of a server. A name has no `__`, which separates it from the names of its tools."""
NAME_MAX, SECRET = 20, 6
"""Longest name and shortest secret, in characters. Shorter values are not masked, because the file also gives plain
words to servers."""
_VARIABLE = re.compile(r"\$\{([A-Za-z_]\w*)\}")

Rule = Literal["none", "confirm", "off"]
"""The person who presses: nobody (`none`) or the caller (`confirm`). `off` leaves the tool out."""


class McpServer(BaseModel):
    """One table `[servers.NAME]` of the file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    command: tuple[str, ...] = ()
    """For stdio: the program and its arguments. The program starts and ends with the bot."""
    env: Mapping[str, str] = {}
    """Environment of the program, besides PATH, HOME, USER and the like; no other variables are inherited."""
    url: str = ""
    """For streamable HTTP: the server's address."""
    headers: Mapping[str, str] = {}
    """HTTP headers sent with every request."""
    timeout_seconds: float = Field(default=30, gt=0, le=600)
    """Longest wait for an answer (s)."""
    tools: Mapping[str, Rule] = {}
    """Tool → rule. A tool without a rule needs the caller's press, whatever the server says about it."""
    public: tuple[str, ...] = ()
    """Tools whose results everybody in the company may see, so that a channel may show them. Results of other tools go
    to the caller's DM."""

    @model_validator(mode="after")
    def require_valid_endpoint(self) -> McpServer:
        if len(self.name) > NAME_MAX or not NAME.fullmatch(self.name):
            raise ValueError(f"its name should be at most {NAME_MAX} of a-z, 0-9, single _ and -, a letter first")
        if bool(self.command) == bool(self.url):
            raise ValueError("give either `command` or `url`")
        if (self.command and self.headers) or (self.url and self.env):
            raise ValueError("`env` goes with `command`, `headers` with `url`")
        if self.url:
            parts = urlsplit(self.url)
            if parts.scheme not in ("http", "https") or not parts.hostname:
                raise ValueError("`url` should look like https://host/mcp")
            if parts.username or parts.password:
                raise ValueError("`url` should hold no password; use `headers`")
            if self.headers and parts.scheme == "http" and not is_local_host(parts.hostname):
                raise ValueError("`headers` would travel unencrypted; use https")
        return self

    @property
    def secrets(self) -> tuple[str, ...]:
        """Values that must never be repeated, longest first."""
        given = {*self.env.values(), *self.headers.values()}
        parts = given | {one.partition(" ")[2] for one in self.headers.values()}  # Bearer …
        return tuple(sorted((one for one in parts if len(one) >= SECRET), key=len, reverse=True))

    def mask_secrets(self, text: str) -> str:
        """Replace the secrets in a text by `***`."""
        for secret in self.secrets:
            text = text.replace(secret, "***")
        return text


def read_servers(text: str, environ: Mapping[str, str]) -> tuple[McpServer, ...]:
    """Read the servers from a TOML text, with `${NAME}` filled in from `environ`. Raises `ValueError` with the
    reason."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as wrong:
        raise ValueError(f"not TOML: {wrong}") from wrong
    servers = document.pop("servers", {})
    if document or not isinstance(servers, dict):
        raise ValueError(f"only [servers.NAME] tables belong there, not {', '.join(document) or 'a value'}")
    parsed = list[McpServer]()
    for name, table in servers.items():
        if not isinstance(table, dict) or "name" in table:
            raise ValueError(f"servers.{name}: should be a table of `command` or `url`, without a `name`")
        filled = {
            key: {one: _expand_variables(f"{name}.{key}.{one}", value, environ) for one, value in given.items()}
            for key in ("env", "headers")
            if isinstance(given := table.get(key), dict)
        }
        try:
            parsed.append(McpServer.model_validate({"name": name, **table, **filled}))
        except ValidationError as error:
            problems = [f"servers.{'.'.join(map(str, (name, *one['loc'])))}: {one['msg']}" for one in error.errors()]
            raise ValueError("; ".join(problems)) from None
    return tuple(parsed)


def _expand_variables(at: str, value: object, environ: Mapping[str, str]) -> object:
    """Fill in a value's variables. Raises `ValueError` with the name of a variable that is not set."""
    if not isinstance(value, str):
        return value
    lacking = [one for one in _VARIABLE.findall(value) if not environ.get(one)]
    if lacking:
        raise ValueError(f"servers.{at}: the environment variable {lacking[0]} is not set")
    return _VARIABLE.sub(lambda found: environ[found[1]], value)
