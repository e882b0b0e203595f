"""Splits a text into clauses, and finds those that state something. Questions, examples and quotations state nothing.
Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from bot.agent.request_numbers import find_requests

_SENTENCE = re.compile(r"(?<=[。;!?\n])|(?<=\.)(?=\s)")
_PART = re.compile(r"(?<=,)(?!(?<=[0-9],)\s?[0-9])")
"""The place after a comma, unless the comma is inside a number or a date."""
_BLANK = re.compile(r"[^\n]")
_QUOTED = re.compile(r"[“\"「『][^“”\"「」『』\n]{12,400}[”\"」』]")
"""A quotation of words that somebody could say. Shorter quotations are names or figures."""
_EXAMPLE = re.compile(
    r"例如|比如|譬如|这样说|这样写|示例|例子|"
    r"\b(?:for example|for instance|e\.g\.|such as|you (?:can|could) (?:say|write)\b|an example\b)",
    re.I,
)
ASKS = re.compile(
    r"要不要|需不需要|需要(?:我|为您|帮)|是否|是不是|能否|可否|可以吗|能不能|哪|什么|谁(?!都)|几|多少|怎么|如何|"
    r"想(?:要|从|在|请)|[您你](?:是|想|要|说|指|希望|打算)|还是(?!要)|(?:要|帮).{0,12}吗|"
    r"^\W*+(?:(?:and|or|so|but|then|also)\s++)?(?:is|are|was|were|do|does|did|have|has|had|can|could|shall|should|will|"
    r"would|may|might|which|what|who|whom|when|where|why|how)\b|"
    r"\b(?:(?:shall|should|may) i|(?:would|do|did|can|could) you|or (?:would|should|shall)|want me to)\b",
    re.I,
)
_READ_BACK = re.compile(
    r"^(?!.*(?:点|按|卡片|press|card|button|click)).*?(?:请(?:您|你)?(?:先)?(?:再)?(?:确认|核对)|"
    r"(?:确认|核对)一下|是否(?:正确|无误|确认|提交|发起)|以上.{0,10}(?:正确|对吗|无误)|"
    r"please (?:confirm|check|review)|(?:can|could) you (?:confirm|check)|let me (?:confirm|make sure)|"
    r"is (?:this|that|everything|all of this) (?:right|correct|ok)|do you mean|"
    r"(?:shall|should) i (?:submit|start|go ahead|send|proceed))",
    re.I,
)
"""A line that asks for a confirmation, unless it tells of a card."""
_ITEM = re.compile(r"\s*(?:[-•·*|>]|[0-9]{1,2}[.)、]|[^\s:]{1,24}\s{0,2}:|$)")
"""The start of a list item, or of a label with its value; also an empty line."""
_CONDITION = re.compile(
    r"^\W*+(?:如果|若|要是|一旦|只要|假如|等|待|当|除非|万一|"
    r"(?:在.{1,12}(?:后|之前|时)|.{0,16}(?:之后|以后|的话)|(?:点|按|确认|提交|批准|通过|审批).{0,12}后)\W*$|"
    r"(?:if|once|when|whenever|after|until|unless|before|as soon as|in case|provided|should (?:you|he|she|they))\b)",
    re.I,
)
OPEN = re.compile(
    r"[没未不尚等待谁]|(?<!申)请(?!假)|如果|要是|可以|可能|或|[再将会要吗呢?]|n't\b|"
    r"\b(?:not|never|no|none|nothing|nobody|any|who|which|by whom|if|once|when|until|unless|(?<!day )(?:before|after)|"
    r"will|would|can|could|may|might|should|shall|please|again|waits?|waiting|needs?|want|let|do you|or)\b",
    re.I,
)
"""Words of a question, a condition, advice, a refusal or a plan. A clause with one states nothing as a fact."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clause:
    """The text between two punctuation marks."""

    text: str
    requests: Sequence[str]
    """Numbers of the requests in the clause's sentence."""
    is_question: bool
    """Whether the clause asks, or belongs to a question."""
    is_conditional: bool
    """Whether this clause, or an earlier one in its sentence, sets a condition."""


def split_sentences(text: str) -> list[str]:
    """Return the sentences and lines of a normalized text, each with its end."""
    return _SENTENCE.split(text)


def split_clauses(text: str) -> list[Clause]:
    clauses = list[Clause]()
    for sentence in split_sentences(text):
        parts, requests = _PART.split(sentence), find_requests(sentence)
        end, first, is_conditional = parts[-1].rstrip(" \t\r\n)」”\"'。!."), len(parts), False
        if end.endswith(("?", "吗", "呢", "么")):
            first = next((index for index, part in enumerate(parts) if ASKS.search(part)), len(parts) - 1)
        for index, part in enumerate(parts):
            is_conditional = is_conditional or _CONDITION.search(part) is not None
            clauses.append(
                Clause(text=part, requests=requests, is_question=index >= first, is_conditional=is_conditional)
            )
    return clauses


def blank_examples(text: str) -> str:
    """Blank the examples and quotations in a normalized text. An example ends with its paragraph."""
    text = _QUOTED.sub(";", text)
    parts = [(paragraph, _EXAMPLE.search(paragraph)) for paragraph in text.split("\n\n")]
    return "\n\n".join(paragraph[: found.start()] + ";" if found else paragraph for paragraph, found in parts)


def blank_unstated(text: str) -> str:
    """Blank the questions, the conditions and everything read back for confirmation in a normalized text without
    examples."""
    kept = "".join(
        _BLANK.sub(" ", one.text) if one.is_question or one.is_conditional else one.text for one in split_clauses(text)
    )
    # A list between *please confirm:* and *is this correct?* is a question too.
    lines, told, below = text.split("\n"), list[str](), False
    asks_below = any(map(_READ_BACK.search, lines[-3:]))
    for kept_line, line in zip(kept.split("\n"), lines, strict=True):
        item = _ITEM.match(line) is not None
        lead = line.rstrip().endswith(":") and _READ_BACK.search(line) is not None
        below = lead or (below and item)
        told.append("" if (below or (asks_below and item)) and not lead else kept_line)
    return "\n".join(told)
