"""Which platform the bot is on: what the settings have to say, and what a start imports."""

import json
import subprocess
import sys
from typing import Any

import pytest

from bot.app.settings import Settings, require_valid_settings
from bot.core.errors import SettingsError

APP = {"feishu_app_id": "cli_a1b2c3", "feishu_app_secret": "s3cr3t-of-the-app"}
SLACK = {"slack_bot_token": "xoxb-1", "slack_app_token": "xapp-1"}

REFUSED: dict[str, tuple[dict[str, str], str]] = {
    "both": ({**APP, **SLACK}, "SLACK_BOT_TOKEN and FEISHU_APP_ID are both set"),
    "no secret": ({"feishu_app_id": "cli_a1b2c3"}, "FEISHU_APP_SECRET is missing"),
    "no id": ({"feishu_app_secret": "s3cr3t-of-the-app"}, "FEISHU_APP_SECRET is set but FEISHU_APP_ID is not"),
    "another id": ({**APP, "feishu_app_id": "ou_1"}, "should begin with cli_"),
    "http without key": ({**APP, "feishu_mode": "http"}, "FEISHU_ENCRYPT_KEY is missing"),
    "odd address": ({**APP, "feishu_api_url": "open.feishu.cn"}, "FEISHU_API_URL should begin with"),
}


def build_settings(values: dict[str, Any]) -> Settings:
    return Settings(_env_file=None, **values)  # type: ignore[call-arg]


@pytest.mark.parametrize("case", REFUSED)
def test_half_of_the_settings_says_what_is_missing(case: str) -> None:
    values, word = REFUSED[case]
    with pytest.raises(SettingsError, match=word) as told:
        require_valid_settings(build_settings(values))
    assert "s3cr3t" not in str(told.value)


@pytest.mark.parametrize("values", [{}, APP, SLACK, {**APP, "feishu_mode": "http", "feishu_encrypt_key": "k" * 20}])
def test_negative_control_whole_settings_are_taken(values: dict[str, str]) -> None:
    settings = build_settings(values)
    require_valid_settings(settings)
    assert settings.has_real_workspace == bool(values)
    assert settings.has_real_feishu == ("feishu_app_id" in values)


STARTED = """
import json, sys
from bot.app.build import choose_platform
from bot.app.services import FeishuApp, ModelEndpoint, Services
import bot.ops.cli.run

named = dict(redis_url="", slack_api_url="", bot_token="", model=ModelEndpoint(url="", key="", name=""), smtp_url="")
feishu = FeishuApp(url="", app_id="cli_1", secret="") if sys.argv[1] == "feishu" else None
choose_platform(Services(**named, feishu=feishu))
print(json.dumps(sorted(sys.modules)))
"""


@pytest.mark.parametrize("platform", ["slack", "feishu"])
def test_a_start_imports_the_platform_in_use_alone(platform: str) -> None:
    done = subprocess.run([sys.executable, "-c", STARTED, platform], capture_output=True, text=True, check=True)
    modules = json.loads(done.stdout)
    other = {"slack": ("bot.chat.feishu",), "feishu": ("bot.chat.slack", "slack_bolt", "slack_sdk")}[platform]
    assert f"bot.app.{platform}_platform" in modules
    assert not [one for one in modules if one.startswith((*other, "lark_"))]
