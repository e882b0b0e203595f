"""Every refusal offers a way out: whom to ask, what to say, what to mend, or when to come back."""

import re

import pytest

from bot.agent.tool_executor import CALL_MISTAKES
from bot.core.i18n import load_sentences

WAY_OUT = {
    "zh": re.compile(r"(?<!申)请(?!假)|可以(?!查看申请)|说「|点击「|？|\{(?:who|missing)}"),
    "en": re.compile(r"(?i)please|\byou can\b(?! read)|\bsay “|\bpress “|\?|\{who} |\{missing}|can be "),
}
SETTLED = re.compile(r"refused\.(?:already|anew_already|of_request)")
"""The matter is over, as somebody wanted it; `of_request` only puts a request's number in front."""
FOR_ADMINISTRATORS = {"error.not_ready", "error.not_movable"}


def list_dead_ends(sentences: dict[str, dict[str, str]]) -> list[str]:
    """The refusals that leave their reader without a next step, by language."""
    refusals = {
        key: words
        for key, words in sentences.items()
        if key.startswith(("error.", "refused."))
        and key.partition(".")[2] not in CALL_MISTAKES
        and key not in FOR_ADMINISTRATORS
        and not SETTLED.match(key)
    }
    return [f"{key} {language}" for key, words in refusals.items() for language, way in WAY_OUT.items()
            if not way.search(words[language])]  # fmt: skip


def test_every_refusal_offers_a_way_out() -> None:
    assert list_dead_ends({key: dict(words) for key, words in load_sentences().items()}) == []


@pytest.mark.parametrize(
    ("zh", "en"),
    [("不能审批自己的申请", "No one can decide their own request"), ("没有找到申请 {request}", "There is no request")],
)
def test_negative_control_a_dead_end_is_found(zh: str, en: str) -> None:
    assert list_dead_ends({"error.x": {"zh": zh, "en": en}}) == ["error.x zh", "error.x en"]
