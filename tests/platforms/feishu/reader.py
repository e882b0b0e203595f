"""What a person reads on a card, by a CommonMark renderer of others (markdown-it-py) with the tags that Feishu adds."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token

from bot.platforms.feishu.cards import Element
from tests.platforms.feishu.card_schema import walk

MARKDOWN = MarkdownIt("commonmark", {"breaks": True}).enable(["table", "strikethrough"])
TAG = re.compile(r"</?(?:at|font|a|person|link|text_tag|number_tag|raw|br|hr|local_datetime|audio)\b[^<>]*>")
"""Feishu's tags. In CommonMark, they are HTML."""


def list_tokens(content: str) -> list[Token]:
    return [one for token in MARKDOWN.parse(content) for one in (token, *(token.children or ()))]


def list_tags(content: str) -> list[str]:
    """The tags that a markdown really has."""
    html = [one.content for one in list_tokens(content) if one.type in ("html_inline", "html_block")]
    return [tag for piece in html for tag in TAG.findall(piece)]


def read_markdown(content: str) -> str:
    """The words of a markdown, without formatting."""
    kept = list[str]()
    for one in list_tokens(content):
        if one.type in ("text", "code_inline", "code_block", "fence"):
            kept.append(one.content)
        elif one.type in ("softbreak", "hardbreak", "paragraph_close", "tr_close", "heading_close", "td_close"):
            kept.append("\n")
        elif one.type in ("html_inline", "html_block"):
            kept.append(TAG.sub("", one.content))
    return "".join(kept)


def list_texts(card: Element) -> Iterator[tuple[str, str]]:
    """(tag, words as they are read) of each text below the header of a card, in order."""
    for one in walk(card["body"]):
        if one.get("tag") == "markdown":
            yield "markdown", read_markdown(one["content"])
        elif one.get("tag") == "plain_text":
            yield "plain_text", one["content"]
        elif one.get("tag") == "input":
            yield "input", one.get("default_value", "")


def read_cards(cards: Sequence[Element]) -> str:
    """The title, and everything below the headers."""
    title = cards[0].get("header", {"title": {"content": ""}})["title"]["content"]
    return "\n".join([title, *(words for card in cards for _, words in list_texts(card))])


def squeeze(text: str) -> str:
    """The text without blanks, because lines and blanks are laid out by the client."""
    return "".join(text.replace("\xa0", " ").split())


def list_markdown(cards: Sequence[Element]) -> list[str]:
    return [one["content"] for card in cards for one in walk(card) if one.get("tag") == "markdown"]


def list_values(card: Element) -> list[dict[str, Any]]:
    """What the buttons, boxes and menus of a card carry."""
    return [behavior["value"] for one in walk(card) for behavior in one.get("behaviors", ())]
