"""Checks that a text is ready to be sent: not empty, not a template, without placeholders."""

from __future__ import annotations

import re
import unicodedata

from tools.characters import clean_value
from tools.spec import ToolError

BLANKS_EN = (
    r"your|recipient|sender|insert|enter|fill|(?:full |first |last |company )?names?|dates?|time|subject|body|content|"
    r"email|title|position|company|department|reason|placeholder|signature|text|phone|contact"
)
BLANKS_ZH = (
    r"你的|您的|请?填写|请?输入|请?补充|插入|待填|收件人|发件人|姓名|名字|日期|时间|公司|部门|职位|主题|正文|内容|"
    r"邮件内容|事由|原因|签名|联系方式|电话"
)
PLACEHOLDERS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"\{\{[^{}\n]{0,80}+\}\}",
        r"\$\{[^}]{0,80}\}",
        rf"[\[<]\s*(?:{BLANKS_EN})\b[^\]>\n]{{0,60}}[\]>]",
        rf"[\[<【〔]\s*(?:{BLANKS_ZH})[^\]>】〕\n]{{0,20}}[\]>】〕]",
        r"[（(]\s*(?:请?填写|请?输入|请?补充|待填|待补充)[^）)\n]{0,20}[）)]",
        r"lorem ipsum",
        r"\b(?:subject|body|email|mail|message)\s+(?:goes\s+)?here\b",
        r"\b(?:insert|enter|write|type)\s++(?:your|the)\s++[\w\s]{0,30}\bhere\b",
        r"(?:此处|这里|在此)(?:填写|填入|输入|插入|补充)",
        r"(?<![\w×＿])(?:(?-i:X{3,8})|×××++|___++|＿＿＿++)(?!\w)",
    )
)
"""Patterns of placeholders anywhere in a text."""

ENCODED = re.compile(r"=\?[^?\s]{1,40}\?[bBqQ]\?")
_FIRST_LINE = re.compile(r"[^\w>]{0,40}(?:本邮件由countersign代|countersignsendsthisonbehalfof)")
"""The beginning of a line that readers would take for the program's first line about the sender (`mail.first_line`), in
small letters and without blanks. Quoted lines, which begin with `>`, are allowed."""
SHORT = 100
REQUESTS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"(?:请|需要|待|等待)\s*(?:用户|您|你|发起人)\s*(?:提供|补充|填写|告知|确认)",
        r"(?:提供|补充|填写).{0,6}邮件.{0,3}(?:内容|正文|主题)",
        r"(?:内容|正文|主题)(?:待定|待补充|待填写|待确认|未提供)",
        r"\b(?:ask|wait for|waiting for)\s+(?:the\s+)?user\b",
        r"\buser\s+(?:to|should|must|needs? to|did not|has not)\s+(?:provide|specify|supply|give)",
        r"\b(?:provide|supply|specify)\s+(?:the\s+|an?\s+)?(?:e-?mail|mail|message)\s+(?:content|body|text|subject)",
        r"\b(?:content|body|subject)\s+(?:not|to be)\s+(?:provided|specified|determined|added)",
    )
)
"""Patterns of texts that a model writes when it has no content; applied to texts of at most `SHORT` characters."""

EMPTY = re.compile(
    r"tb[ad]|todo|n/?a|none|null|nil|empty|placeholder|content|body|subject|text|undefined|"
    r"无|空|待定|待补充|待填写|暂无|(?:邮件)?(?:内容|正文|主题)",
    re.IGNORECASE,
)
"""Patterns of a whole text without content, apart from surrounding signs."""


def require_complete_draft(subject: str, body: str, max_subject: int, max_body: int) -> tuple[str, str]:
    """Return subject and body trimmed and cleaned. Raises `ToolError` with the reason if one of them cannot be sent."""
    line = subject.strip()
    # A line break would start another header, and an encoded word (RFC 2047) would be decoded to something else.
    has_several_lines = any(unicodedata.category(sign) in ("Cc", "Zl", "Zp") for sign in line)
    if len(line) > max_subject or has_several_lines or ENCODED.search(line):
        message = f"the subject should be one line of at most {max_subject} characters"
        raise ToolError("bad_subject", message, field="subject", limit=max_subject)
    subject, body = clean_value(subject).strip(), clean_value(body.replace("\r\n", "\n").replace("\r", "\n")).strip()
    if len(body) > max_body:
        label = {"zh": "正文", "en": "The text"}
        message = f"the body has {len(body)} characters, at most {max_body}"
        raise ToolError("too_long", message, field="body", label=label, limit=max_body)
    for name, text in (("subject", subject), ("body", body)):
        if not _strip_signs(text):
            raise ToolError(
                "empty_mail", f"the {name} is empty; ask what the mail should say", needs_person=True, field=name
            )
        if is_template(text):
            message = f"the {name} is a template or has placeholders; ask for what is missing and write it out"
            raise ToolError("template_mail", message, needs_person=True, field=name)
    folded = ("".join(unicodedata.normalize("NFKC", line).casefold().split()) for line in body.splitlines())
    if any(map(_FIRST_LINE.match, folded)):
        message = "the body has a line that looks like the mail's own first line, which says on whose behalf it is sent"
        raise ToolError("posing_mail", message, field="body")
    return subject, body


def is_template(text: str) -> bool:
    """Whether somebody still has to fill in the text."""
    patterns = (*PLACEHOLDERS, *REQUESTS) if len(text) <= SHORT else PLACEHOLDERS
    return EMPTY.fullmatch(_strip_signs(text)) is not None or any(p.search(text) for p in patterns)


def _strip_signs(text: str) -> str:
    """The text without surrounding signs: `[TBD]…` → `TBD`."""
    kept = [place for place, sign in enumerate(text) if sign.isalnum()]
    return text[kept[0] : kept[-1] + 1] if kept else ""
