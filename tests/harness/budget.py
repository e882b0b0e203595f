"""Replies with a cost."""

from dataclasses import replace

from bot.agent.limits import parse_prices
from bot.agent.model import ModelReply
from bot.chat.messages import Place

PRICES = parse_prices(
    'currency = "USD"\n[models]\na = {input = 0.25, cached = 0.025, output = 2}\nb = {input=1, output=3}'
)


ELSEWHERE = Place(team="T1", channel="C7", thread="7.0")


def took(
    reply: ModelReply, tokens_in: int = 100, cached: int = 0, tokens_out: int = 10, model: str = "a"
) -> ModelReply:
    return replace(reply, tokens_in=tokens_in, tokens_cached=cached, tokens_out=tokens_out, model=model)
