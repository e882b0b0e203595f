"""Splits a text into clauses, and finds those that state something. Questions, examples and quotations state nothing.
Pure."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

IDENTIFIER = re.compile(
    r"(?<![A-Za-z0-9_-])(?!(?:ISO|IEC|GB|RFC|FY)-)[A-Z]{1,3}-[0-9]{3,6}(?:-[0-9]{1,3})*(?![0-9A-Za-z])", re.I
)
"""The number of a request or a task."""
_DASHES = dict.fromkeys(map(ord, "‐‑‒–—―−"), "-")
_SENTENCE = re.compile(r"(?<=[。;!?\n])|(?<=\.)(?=\s)")
_PART = re.compile(r"(?<=,)(?!(?<=[0-9],)\s?[0-9])")
"""The place after a comma, unless the comma is inside a number or a date."""
_BLANK = re.compile(r"[^\n]")
_QUOTED = re.compile(r"[“\"「『][^“”\"「」『』\n]{12,400}[”\"」』]")
"""A quotation of words that somebody could say, or that are written somewhere. Shorter quotations are names or
figures."""
_EXAMPLE = re.compile(
    r"例如|比如|譬如|这样说|这样写|示例|例子|\bfor example\b|\bfor instance\b|\be\.g\.|\bsuch as\b|\byou (?:can|"
    r"could) (?:say|write)\b|"
    r"\ban example\b",
    re.I,
)
ASKS = re.compile(
    r"要不要|需不需要|需要(?:我|为您|帮)|是否|是不是|能否|可否|可以吗|能不能|哪|什么|谁(?!都)|几|多少|怎么|如何|"
    r"想(?:要|从|在|请)|"
    r"您(?:是|想|要|说|指|希望|打算)|你(?:是|想|要|说|指|希望|打算)|还是(?!要)|(?:要|帮).{0,12}吗|"
    r"^\W*+(?:(?:and|or|so|but|then|also)\s++)?(?:is|are|was|were|do|does|did|have|has|had|can|could|shall|should|"
    r"will|"
    r"would|may|"
    r"might|which|what|who|whom|when|where|why|how)\b|"
    r"\b(?:shall i|should i|would you|do you|did you|can you|could you|may i|or would|or should|or shall|"
    r"want me to)\b",
    re.I,
)
_TAG = re.compile(
    r"^\W*+(?:这样|那|请问|以上)?(?:对吗|对吧|对不对|是吗|是吧|没错吧|可以吗|可以么|行吗|好吗|好不好|确认吗|正确吗|"
    r"没问题吧|"
    r"您看(?:可以|行|好)吗|(?:is )?(?:that|this|it|all of this|everything)?\s?(?:right|correct|ok|okay|fine|so|"
    r"yes|alright))\s*[?。]",
    re.I,
)
_READ_BACK = re.compile(
    r"请(?:您|你)?(?:先)?(?:再)?(?:确认|核对)|(?:确认|核对)一下|是否(?:正确|无误|确认|提交|发起)|"
    r"以上.{0,10}(?:正确|对吗|无误)|"
    r"please (?:confirm|check|review)|(?:can|could) you (?:confirm|check)|let me (?:confirm|make sure)|"
    r"is (?:this|that|everything|all of this) (?:right|correct|ok)|do you mean|"
    r"shall i (?:submit|start|go ahead|send|proceed)|should i (?:submit|start|go ahead|send|proceed)",
    re.I,
)
_ITEM = re.compile(r"\s*(?:[-•·*|>]|[0-9]{1,2}[.)、]|[^\s:]{1,24}\s{0,2}:|$)")
"""The start of a list item, or of a label with its value; also an empty line."""
_CONDITION = re.compile(
    r"^\W*+(?:如果|若|要是|一旦|只要|假如|等|待|当|除非|万一|在.{1,12}(?:后|之前|时)\W*$|.{0,16}(?:之后|以后|"
    r"的话)\W*$|"
    r"(?:点|按|确认|提交|批准|通过|审批).{0,12}后\W*$)|"
    r"^\W*+(?:if|once|when|whenever|after|until|unless|before|as soon as|in case|provided|should (?:you|he|she|"
    r"they))\b",
    re.I,
)
_PRESS = re.compile(r"点|按|卡片|press|card|button|click", re.I)


GREETING = re.compile(
    r"(?:[\s,，.。!！~～、]|(?:你|您|大家)?好(?:的|呀|啊)?|早(?:上好|安)?|晚上好|下午好|在吗|嗨|谢+了?|多谢|辛苦了?|感谢|收到|明白了?|再见|拜拜"
    r"|hi|hello|hey|good (?:morning|afternoon|evening)|thanks?|thank you|thx|ok(?:ay)?|bye|there|so much|a lot"
    r"|[\U0001f300-\U0001faff\u2600-\u27bf\ufe0f])*+",
    re.IGNORECASE,
)
"""A message that asks for nothing."""
MAX_GREETING = 40
"""Longest greeting, in characters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clause:
    """The text between two punctuation marks."""

    text: str
    sentence: str
    is_question: bool
    """Whether the clause asks, or belongs to a question."""
    is_conditional: bool
    """Whether this clause, or an earlier one in its sentence, sets a condition."""


def is_greeting(text: str) -> bool:
    return len(text) <= MAX_GREETING and GREETING.fullmatch(text.strip()) is not None


def normalize_text(text: str) -> str:
    """Remove full-width forms, invisible characters, unusual dashes and emphasis marks."""
    normal = unicodedata.normalize("NFKC", text)
    shown = "".join(c for c in normal if unicodedata.category(c) != "Cf").translate(_DASHES)
    return shown.replace("**", "").replace("`", "")


def split_sentences(text: str) -> list[str]:
    """Return the sentences and lines of a normalized text, each with its end."""
    return _SENTENCE.split(text)


def find_requests(text: str) -> list[str]:
    """Return the numbers of the requests in a text, each once. A task counts as its request."""
    return list(dict.fromkeys("-".join(one[0].upper().split("-")[:2]) for one in IDENTIFIER.finditer(text)))


def split_clauses(text: str) -> list[Clause]:
    clauses = list[Clause]()
    for sentence in split_sentences(text):
        parts = _PART.split(sentence)
        end, first, is_conditional = parts[-1].rstrip(" \t\r\n)」”\"'。!."), len(parts), False
        if end.endswith(("?", "吗", "呢", "么")):
            asking = (index for index, part in enumerate(parts) if ASKS.search(part))
            is_tag = len(parts) > 1 and _TAG.search(f"{end.rstrip('?')}?") is not None
            first = 0 if is_tag else next(asking, len(parts) - 1)
        for index, part in enumerate(parts):
            is_conditional = is_conditional or _CONDITION.search(part) is not None
            clauses.append(
                Clause(text=part, sentence=sentence, is_question=index >= first, is_conditional=is_conditional)
            )
    return clauses


def blank_examples(text: str) -> str:
    """Blank the examples and quotations in a normalized text. An example ends with its paragraph."""
    text = _QUOTED.sub(";", text)
    paragraphs = list[str]()
    for paragraph in text.split("\n\n"):
        found = _EXAMPLE.search(paragraph)
        paragraphs.append(paragraph[: found.start()] + ";" if found else paragraph)
    return "\n\n".join(paragraphs)


def blank_unstated(text: str) -> str:
    """Blank the questions, the conditions and everything read back for confirmation in a normalized text without
    examples."""
    kept = "".join(
        _BLANK.sub(" ", one.text) if one.is_question or one.is_conditional else one.text for one in split_clauses(text)
    )
    # A list between *please confirm:* and *is this correct?* is a question too, unless it tells of a card.
    lines, told, below = text.split("\n"), list[str](), False
    asks_below = any(_is_read_back(line) for line in lines[-3:])
    for kept_line, line in zip(kept.split("\n"), lines, strict=True):
        item = _ITEM.match(line) is not None
        lead = line.rstrip().endswith(":") and _is_read_back(line)
        below = lead or (below and item)
        told.append("" if (below or (asks_below and item)) and not lead else kept_line)
    return "\n".join(told)


def _is_read_back(line: str) -> bool:
    return _READ_BACK.search(line) is not None and _PRESS.search(line) is None
