"""Classifies who reads a Feishu chat besides the bot: only people of the company, or others too."""

from __future__ import annotations

from bot.platforms.feishu.client import FeishuClient
from bot.platforms.shared import list_mappings

PAGE, PAGES = 100, 20
"""Members per page, the most that Feishu gives, and most pages. A chat with more members is not searched further."""


async def has_only_insiders(client: FeishuClient, tenant: str, channel: str) -> bool:
    """See `CachingReaderClassifier`. Needs `im:chat:readonly` and `im:chat.members:read`."""
    about = await client.call("GET", f"im/v1/chats/{channel}")
    if about.get("external") is not False:
        return False
    query = {"member_id_type": "open_id", "page_size": str(PAGE)}
    for _ in range(PAGES):
        page = await client.call("GET", f"im/v1/chats/{channel}/members", query=query)
        members = list_mappings(page.get("items"))
        if not members or any(one.get("tenant_key") != tenant for one in members):
            return False
        if page.get("has_more") is not True:
            return True
        query["page_token"] = str(page.get("page_token"))
    return False
