"""The bot's messages on Feishu, in Redis: which post became which message, and which cards have to be posted anew.

Feishu knows a repeated message by its `uuid` for one hour, and lets a card be updated for 14 days. The rest of the bot
knows a message by its first id for as long as it likes.

`bot/README.md` lists the keys. If they are lost, cards are not posted anew, and a card that was posted anew is no
longer updated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bot.chat.messages import MessageRef, Place
from bot.core.clock import Clock
from bot.queue.keys import Keys

DAY_MS = 24 * 3_600_000
POSTS_MS = 14 * DAY_MS
"""How long a post is found again (ms): longer than its work is repeated."""
CARDS_MS = 60 * DAY_MS
"""How long a card is on record after its last message (ms): far longer than until it is posted anew."""
DECIDED_MS = 3_600_000
"""How long the content of a card without buttons is kept (ms), for a process that is just posting it anew."""
RENEWING_MS = 120_000
"""How long a process may take to post a card anew before another one may try (ms)."""
DM_MS = 30 * DAY_MS
SIGN_MS, OVER_MS = 3_600_000, 3_000
"""How long a sign of life is known (ms), and how long none begins after its end, because a late one would stay."""
OVER = "over"


@dataclass(frozen=True, slots=True, kw_only=True)
class SentCard:
    """A message of ours as it is on record."""

    first: str
    """The id that the rest of the bot knows."""
    newest: str
    place: Place | None = None
    """The place of a card."""
    content: str = ""
    """The card as it was sent last (JSON), if it has buttons or has just lost them."""
    posted_ms: int = 0
    """When the newest message of a card with buttons was posted. 0 if that is not known."""


@dataclass(frozen=True, slots=True)
class SentCards:
    """The messages of one installation. Every call may raise StoreUnavailableError."""

    redis: Any
    keys: Keys
    team: str
    clock: Clock

    def _build_key(self, *parts: str) -> str:
        return ":".join((self.keys.prefix, "{sent}", self.team, *parts))

    # Posts and cards

    async def find_post(self, name: str) -> MessageRef | None:
        found = await self.redis.get(self._build_key("post", name))
        channel, _, message = str(found).partition(" ")
        return MessageRef(channel=channel, ts=message) if found else None

    async def save_post(self, ref: MessageRef, *names: str, place: Place | None = None, content: str = "") -> None:
        """Save the message of a post. `place` is that of a card, and `content` is a card with buttons (JSON)."""
        pipe = self.redis.pipeline(transaction=True)
        for name in names:
            pipe.set(self._build_key("post", name), f"{ref.channel} {ref.ts}", px=POSTS_MS)
        if place:
            whole = place.model_copy(update={"channel": ref.channel})
            pipe.set(self._build_key("place", ref.ts), whole.model_dump_json(), px=CARDS_MS)
        if content:
            self._save_card(pipe, SentCard(first=ref.ts, newest=ref.ts), content)
        await pipe.execute()

    def _save_card(self, pipe: Any, card: SentCard, content: str) -> None:
        pipe.set(self._build_key("card", card.first), content, px=CARDS_MS)
        pipe.delete(self._build_key("decided", card.first))
        pipe.zadd(self._build_key("renewals"), {card.first: card.posted_ms or self.clock.now_ms()})
        pipe.pexpire(self._build_key("renewals"), CARDS_MS)

    async def load_card(self, first: str) -> SentCard:
        return await self._read_card(self.redis.pipeline(transaction=True), first)

    async def _read_card(self, pipe: Any, first: str) -> SentCard:
        """Run what the pipeline holds, and read a card with it."""
        for name in ("newest", "place", "card", "decided"):  # a pipeline of a cluster has no MGET
            pipe.get(self._build_key(name, first))
        pipe.zscore(self._build_key("renewals"), first)
        newest, place, content, decided, posted_ms = (await pipe.execute())[-5:]
        return SentCard(
            first=first,
            newest=str(newest or first),
            place=Place.model_validate_json(place) if place else None,
            content=str(content or decided or ""),
            posted_ms=int(posted_ms or 0),
        )

    async def save_content(self, card: SentCard, content: str, *, has_buttons: bool) -> SentCard:
        """Save the content of a card after an update, and return its record as it is then. A card without buttons
        leaves the record soon."""
        pipe = self.redis.pipeline(transaction=True)
        pipe.pexpire(self._build_key("place", card.first), CARDS_MS)
        if has_buttons:
            self._save_card(pipe, card, content)
        elif card.content:
            pipe.delete(self._build_key("card", card.first))
            pipe.zrem(self._build_key("renewals"), card.first)
            pipe.set(self._build_key("decided", card.first), content, px=DECIDED_MS)
        return await self._read_card(pipe, card.first)

    async def save_newest(self, card: SentCard, newest: str) -> SentCard:
        """Save that a new message has taken the place of the card's last one, and return its record as it is then."""
        pipe = self.redis.pipeline(transaction=True)
        pipe.set(self._build_key("newest", card.first), newest, px=CARDS_MS)
        pipe.set(self._build_key("first", newest), card.first, px=CARDS_MS)
        pipe.zadd(self._build_key("renewals"), {card.first: self.clock.now_ms()}, xx=True)
        for name in ("place", "card"):
            pipe.pexpire(self._build_key(name, card.first), CARDS_MS)
        return await self._read_card(pipe, card.first)

    async def find_original(self, ref: MessageRef) -> MessageRef:
        """Find the ref that the rest of the bot knows for this message. It differs if the card was posted anew."""
        first = await self.redis.get(self._build_key("first", ref.ts))
        return MessageRef(channel=ref.channel, ts=str(first or ref.ts))

    async def list_old_cards(self, age_ms: int, most: int) -> list[str]:
        """List cards with buttons whose message is older than `age_ms`, the oldest first."""
        found = await self.redis.zrangebyscore(self._build_key("renewals"), 0, self.clock.now_ms() - age_ms, 0, most)
        return [str(one) for one in found]

    async def claim_renewal(self, first: str) -> bool:
        """Claim posting this card anew. Only one process gets True for a while."""
        return bool(await self.redis.set(self._build_key("renewing", first), "1", nx=True, px=RENEWING_MS))

    async def drop_card(self, first: str) -> None:
        """Drop a card that cannot be posted anew."""
        pipe = self.redis.pipeline(transaction=True)
        pipe.zrem(self._build_key("renewals"), first)
        pipe.delete(self._build_key("card", first))
        await pipe.execute()

    # Signs of life

    async def claim_sign(self, thread: str) -> bool:
        """Claim showing the sign of life of a thread. Return False if it is shown, or just over."""
        return bool(await self.redis.set(self._build_key("sign", thread), "", nx=True, px=SIGN_MS))

    async def save_sign(self, thread: str, sign: str) -> bool:
        """Save the sign that is shown. Return False if it is over by now."""
        key = self._build_key("sign", thread)
        if await self.redis.set(key, sign, xx=True, get=True, px=SIGN_MS) == "":
            return True
        await self.drop_sign(thread)
        return False

    async def drop_sign(self, thread: str) -> None:
        """Drop the claim of a sign that could not be shown."""
        await self.redis.delete(self._build_key("sign", thread))

    async def end_sign(self, thread: str) -> str:
        """End the sign of a thread, whichever process shows it. Return the sign to remove, if any."""
        before = await self.redis.set(self._build_key("sign", thread), OVER, get=True, px=OVER_MS)
        return "" if before in (None, OVER) else str(before)

    # People's chats with the bot

    async def find_dm(self, person: str) -> str:
        """Find the person's chat with the bot. Return an empty text if it is not known."""
        return str(await self.redis.get(self._build_dm_key(person)) or "")

    async def save_dm(self, person: str, chat: str) -> None:
        await self.redis.set(self._build_dm_key(person), chat, px=DM_MS)

    def _build_dm_key(self, person: str) -> str:
        return self.keys.build_key(self.keys.get_partition(person), "dm", person)
