"""The MCP servers that the settings name, and the secrets in their file."""

from __future__ import annotations

from collections.abc import Iterator

from bot.app.settings import Settings, load_environment, name_setting, read_setting_file
from bot.core.redaction import MIN_SECRET_LENGTH, is_secret_name, read_url_secrets, remember_secrets
from tools.mcp.config import McpServer, read_servers


def load_mcp_servers(settings: Settings) -> tuple[McpServer, ...]:
    """Load the MCP servers that the settings name. Their file may use environment variables. Raises SettingsError."""
    with name_setting("MCP_FILE"):
        servers = read_servers(read_setting_file("MCP_FILE", settings.mcp_file), load_environment())
    remember_secrets(secret for server in servers for secret in list_server_secrets(server))
    return servers


def list_server_secrets(server: McpServer) -> Iterator[str]:
    """Yield the secrets in a server's table: all headers, and every environment value that is not plainly a word, a
    number, a path or an address. Logs must be able to show the plain ones."""
    for value in server.headers.values():
        yield from (value, value.partition(" ")[2])
    for name, value in server.env.items():
        if is_secret_name(name) or not _is_plain_value(value):
            yield value
        yield from read_url_secrets(value)
    yield from read_url_secrets(server.url)
    for previous, value in zip(server.command, server.command[1:], strict=False):
        name, _, given = value.partition("=")
        if given and is_secret_name(name):
            yield given
        elif previous.startswith("-") and is_secret_name(previous):
            yield value


def _is_plain_value(value: str) -> bool:
    """Whether a value looks like no secret: a short word, a number, a version, a path or an address."""
    if value.startswith(("/", "./", "../", "~/", "http://", "https://")):
        return "@" not in value and "?" not in value
    signs = "".join(value.split()).translate(str.maketrans("", "", "._,:-"))
    return len(value) <= 40 and (signs.isalpha() or signs.isdecimal() or not signs or len(signs) < MIN_SECRET_LENGTH)
