"""Classifies who reads a Slack channel besides the bot: only members of the company, or others too."""

from __future__ import annotations

from slack_sdk.web.async_client import AsyncWebClient

from bot.chat.messages import ChatDirectory
from bot.platforms.slack.web_api import call_slack, get_next_cursor, stream_pages

PAGE, PAGES = 200, 10
"""Members per page, as Slack recommends, and most pages. A channel with more members is not searched further."""
SHARED_FLAGS = ("is_ext_shared", "is_pending_ext_shared", "is_org_shared", "is_shared")
"""Slack's fields for a conversation that people of other workspaces read, or are invited to
(https://docs.slack.dev/reference/objects/conversation-object)."""


async def has_only_insiders(client: AsyncWebClient, directory: ChatDirectory, channel: str) -> bool:
    """See `CachingReaderClassifier`. Needs `channels:read` and `groups:read`."""
    answer = await call_slack(client.conversations_info, {"channel": channel})
    about = answer.get("channel") or {}
    if not about or any(about.get(sign) for sign in SHARED_FLAGS):
        return False
    members, is_whole = list[str](), False
    where = {"channel": channel, "limit": PAGE}
    async for page in stream_pages(client.conversations_members, where, PAGES):
        members += map(str, page.get("members") or ())
        is_whole = not get_next_cursor(page)
    # Members beyond the last page that is read are not known.
    return is_whole and bool(members) and all([bool(one) and await directory.is_inside(one) for one in members])
