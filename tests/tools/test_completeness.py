import pytest

from bot.core.i18n import translate
from tests.harness.corpus import corpus
from tools.languages import LANGUAGES
from tools.mail.completeness import SHORT, is_template, require_complete_draft
from tools.spec import ToolError


@corpus(
    "text",
    [
        "请用户提供邮件内容",
        "请用户提供",
        "请提供邮件内容",
        "等待用户补充邮件正文",
        "需要您提供邮件的主题和内容",
        "邮件内容待定",
        "待补充",
        "TBD",
        "[TBD]",
        "TODO",
        "N/A",
        "……无……",
        "Dear [Your name], thanks",
        "Dear [Name],\nplease see below.",
        "Hi {{name}}, how are you?",
        "Hello ${name}",
        "Hello <recipient>",
        "Lorem ipsum dolor sit amet",
        "【请填写内容】",
        "[姓名] 你好",
        "你好，此处填写正文",
        "（待补充）",
        "Ask the user for the content",
        "The user should provide the text.",
        "Please provide the email content",
        "email body here",
        "Content to be provided",
        "Kind regards, XXXX",
    ],
)
def test_templates_are_refused(text: str) -> None:
    assert is_template(text)


@corpus(
    "text",
    [
        "李四你好，请假申请 L-0012 还在等你审批，麻烦看一下。",
        "【请假通知】张三 11 月 23 日请假",
        "Please provide the content of the quarterly report by Friday.",
        "请提供一下上个月的报表",
        "The body of the car (see picture) is red.",
        "Could you tell me your name for the badge?",
        "我们在等用户确认方案，预计下周一有结果，之后我会把最新的排期和负责人名单发给大家。" * 3,
        "Time: 10:00 [room 3]",
        "a < b and c > d",
        "No text was lost.",
        "内容已经更新，请查收",
    ],
)
def test_real_texts_are_not(text: str) -> None:
    assert not is_template(text)


@corpus(
    ("subject", "body", "code", "field"),
    [
        ("", "hello", "empty_mail", "subject"),
        ("hello", " \n ", "empty_mail", "body"),
        ("hello", "...", "empty_mail", "body"),
        ("TBD", "hello", "template_mail", "subject"),
        ("hello", "{{body}}", "template_mail", "body"),
        ("x" * 201, "hello", "bad_subject", "subject"),
        ("hello\r\nBcc: all@example.com", "hello", "bad_subject", "subject"),
        *((f"a{sign}Bcc: b@example.com", "hello", "bad_subject", "subject") for sign in "\n\r\x0b\x85\u2028\u2029\x00"),
        ("hello", "x" * 10_001, "too_long", "body"),
        ("hello", "-- \nCountersign  sends this on\u3000behalf of 王五 (wangwu@example.com).", "posing_mail", "body"),
        ("hello", "你好\n　【本邮件由Ｃountersign 代 王五 发送】", "posing_mail", "body"),
    ],
)
def test_what_is_wrong_with_a_mail_is_named(subject: str, body: str, code: str, field: str) -> None:
    with pytest.raises(ToolError) as error:
        require_complete_draft(subject, body, 200, 10_000)
    assert (error.value.code, error.value.field) == (code, field)


@corpus(("key", "language"), [(f"mail.{one}", two) for one in ("first_line", "first_line_alone") for two in LANGUAGES])
def test_no_body_repeats_the_first_line_under_another_name_except_in_a_quotation(key: str, language: str) -> None:
    line = translate(key, language, name="王五", address="wangwu@example.com")
    with pytest.raises(ToolError, match="first line"):
        require_complete_draft("hello", f"hello\n\n{line}", 200, 10_000)
    said = f"hello\n> {line}\nthat is what Countersign sends"
    assert require_complete_draft("hello", said, 200, 10_000) == ("hello", said)


def test_a_text_is_tidied_and_lengths_are_bounded_after_trimming() -> None:
    assert require_complete_draft(" Hi ", "a\r\nb\rc\x00 \n", 200, 10_000) == ("Hi", "a\nb\nc")
    assert require_complete_draft("x" * 200, "y" * 10_000, 200, 10_000) == ("x" * 200, "y" * 10_000)
    assert require_complete_draft(" abcd ", "\r\n12\r\n3\r4\n", 4, 6) == ("abcd", "12\n3\n4")
    with pytest.raises(ToolError) as error:
        require_complete_draft("abcde", "hello", 4, 6)
    assert (error.value.code, error.value.params) == ("bad_subject", {"limit": 4})
    with pytest.raises(ToolError) as error:
        require_complete_draft("abcd", "1234567", 4, 6)
    label = {"zh": "正文", "en": "The text"}
    assert (error.value.code, error.value.field) == ("too_long", "body")
    assert error.value.params == {"label": label, "limit": 6}


def test_what_a_model_writes_when_it_has_nothing_to_write_counts_in_short_texts_only() -> None:
    asking = "请用户提供邮件内容"
    assert is_template(asking) and is_template(asking + "。" * (SHORT - len(asking)))
    assert not is_template(asking + "。" * (SHORT - len(asking) + 1))
    assert is_template("很长的正文。" * SHORT + "[Your name]"), "a placeholder counts anywhere"
    assert is_template("[TBD]…") and not is_template("TBD and more")
