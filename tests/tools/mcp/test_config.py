"""The file of MCP servers: what stands in it, and what is said of one that is wrong."""

import re
from pathlib import Path

import pytest

from bot.app.mcp_file import load_mcp_servers
from bot.app.settings import Settings
from bot.core.errors import SettingsError
from tests.harness.corpus import corpus
from tools.mcp.config import read_servers

EXAMPLE = Path(__file__).parents[3] / "deploy" / "mcp.example.toml"
HERE = 'command = ["wiki"]'


def test_both_kinds_of_servers_and_variables_of_the_environment() -> None:
    text = f"""
    [servers.wiki]
    {HERE}
    env = {{TOKEN = "${{WIKI_TOKEN}}", PLACE = "here"}}
    timeout_seconds = 5
    [servers.wiki.tools]
    write = "off"
    [servers.crm]
    url = "https://crm.example.com/mcp"
    headers = {{Authorization = "Bearer ${{CRM_TOKEN}}"}}
    """
    wiki, crm = read_servers(text, {"WIKI_TOKEN": "tulip-seven", "CRM_TOKEN": "rose-eight"})
    assert wiki.env == {"TOKEN": "tulip-seven", "PLACE": "here"} and wiki.tools == {"write": "off"}
    assert crm.headers == {"Authorization": "Bearer rose-eight"} and crm.timeout_seconds == 30
    assert wiki.mask_secrets("it is tulip-seven here") == "it is *** here", "short words of the file are no secrets"
    assert crm.mask_secrets("rose-eight") == "***"
    assert read_servers("", {}) == ()
    text = EXAMPLE.read_text(encoding="utf-8")  # right, also with its comments taken away
    assert [one.name for one in read_servers(text, {})] == ["time"]
    whole = re.sub(r"^#(?=\S)", "", text, flags=re.M)
    assert [one.name for one in read_servers(whole, {"CRM_TOKEN": "rose-eight"})] == ["time", "crm"]
    with pytest.raises(SettingsError, match=r"no\.toml cannot be read"):
        load_mcp_servers(Settings(_env_file=None, mcp_file=Path("no.toml")))  # type: ignore[call-arg]
    assert load_mcp_servers(Settings(_env_file=None)) == ()  # type: ignore[call-arg]


@corpus(
    ("text", "said"),
    ("[servers.a", "not TOML"),
    ("[server.a]", "only [servers.NAME] tables belong there, not server"),
    ("servers = 5", "only [servers.NAME] tables"),
    ("[servers]\na = 5", "servers.a: should be a table"),
    ("[servers.a]", "give either `command` or `url`"),
    (f'[servers.a]\n{HERE}\nurl = "https://x/mcp"', "give either `command` or `url`"),
    (f'[servers.a]\n{HERE}\nheaders = {{A = "b"}}', "`headers` with `url`"),
    ('[servers.a]\nurl = "https://x"\nenv = {A = "b"}', "`env` goes with `command`"),
    (f"[servers.A_b]\n{HERE}", "its name should be"),
    (f"[servers.a__b]\n{HERE}", "its name should be"),
    (f"[servers.{'a' * 21}]\n{HERE}", "its name should be"),
    (f'[servers.a]\n{HERE}\nname = "b"', "without a `name`"),
    (f'[servers.a]\n{HERE}\n[servers.a.tools]\nx = "approve"', "servers.a.tools.x: Input should be 'none'"),
    (f"[servers.a]\n{HERE}\ntimeout_seconds = 0", "servers.a.timeout_seconds: Input should be greater than 0"),
    (f"[servers.a]\n{HERE}\nspeed = 9", "servers.a.speed: Extra inputs"),
    ('[servers.a]\nurl = "ftp://x"', "should look like https://"),
    ('[servers.a]\nurl = "https://me:secret@x/mcp"', "should hold no password"),
    ('[servers.a]\nurl = "http://x/mcp"\nheaders = {A = "b"}', "would travel unencrypted"),
    (f'[servers.a]\n{HERE}\nenv = {{T = "${{NOT_SET}}"}}', "servers.a.env.T: the environment variable"),
)  # fmt: skip
def test_what_is_wrong_is_named(text: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "mcp.toml"
    file.write_text(text)
    with pytest.raises(SettingsError) as wrong:
        load_mcp_servers(Settings(_env_file=None, mcp_file=file))  # type: ignore[call-arg]
    assert str(wrong.value).startswith("MCP_FILE: ") and said in str(wrong.value)
    assert "secret" not in str(wrong.value), "a password is not repeated"
