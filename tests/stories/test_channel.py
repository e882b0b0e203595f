"""The platform over signed HTTP."""

from redis.asyncio import Redis

from tests.harness.office import CHAT, LI, SECRET, ZHANG, Office
from tests.harness.programs import free_ports
from tests.stories.script import requests_of


async def test_http_mode_from_a_message_to_a_started_request(empty: Office, redis: Redis) -> None:
    here, keys = empty.dm(ZHANG), {"feishu_encrypt_key": SECRET, "feishu_verification_token": SECRET}
    async with empty.opened(slack_mode="http", feishu_mode="http", http_port=free_ports(1), **keys):
        assert not empty.driver.ws.sockets.list_live_links(), "no socket: everything comes signed"
        await empty.says(ZHANG, "报销差旅费 500 元，审批人李四")
        await empty.press(ZHANG, await empty.card(here, "500"), "confirm")
        await empty.until(lambda: "E-0001" in empty.said(here))
        assert (await empty.press(LI, await empty.card(empty.dm(LI), "E-0001"), "reject")).ok
        assert (await empty.fill(LI, opinion="请附发票")).ok, "a dialog, opened and submitted over HTTP"
        await empty.until(lambda: "请附发票" in empty.said(here))
        assert await requests_of(redis, ZHANG) == ["E-0001"]
        if CHAT == "slack":  # Feishu has no commands
            assert (await empty.driver.run_slash_command(ZHANG, here, "/countersign", "help")).ok
            await empty.until(lambda: "Countersign" in empty.said(here))
