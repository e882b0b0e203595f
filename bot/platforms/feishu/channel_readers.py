"""Classifies who reads a Feishu chat besides the bot: only people of the company, or others too."""

from __future__ import annotations

from bot.platforms.feishu.client import FeishuClient
from bot.platforms.shared import CachingReaderClassifier, list_mappings

PAGE, PAGES = 100, 20
"""Members per page, the most that Feishu gives, and most pages. A chat with more members is not searched further."""


class FeishuReaderClassifier(CachingReaderClassifier):
    """Needs `im:chat:readonly` and `im:chat.members:read`."""

    def __init__(self, client: FeishuClient, *, tenant: str) -> None:
        super().__init__()
        self._client, self._tenant = client, tenant

    async def has_only_insiders(self, channel: str) -> bool:
        about = await self._client.call("GET", f"im/v1/chats/{channel}")
        if about.get("external") is not False:
            return False
        query = {"member_id_type": "open_id", "page_size": str(PAGE)}
        for _ in range(PAGES):
            page = await self._client.call("GET", f"im/v1/chats/{channel}/members", query=query)
            members = list_mappings(page.get("items"))
            if not members or any(one.get("tenant_key") != self._tenant for one in members):
                return False
            if page.get("has_more") is not True:
                return True
            query["page_token"] = str(page.get("page_token"))
        return False
