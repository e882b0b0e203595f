"""Every key in use has its sentence, and every sentence is in use."""

import re
import tomllib
from collections import Counter
from collections.abc import Sequence

import pytest

from bot.agent.tool_executor import CALL_MISTAKES
from bot.core.i18n import list_word_files, load_sentences, translate
from bot.features.shipped import JOURNAL_KINDS
from bot.ops.cli.definition_errors import TOPIC
from bot.storage.journal import KINDS
from tests.core.sentence_keys import KeyUses, Module, find_key_uses, parse_module, read_modules, read_page_words

# The keys that code names

TOPICS = frozenset(key.partition(".")[0] for key in load_sentences())
NO_SENTENCES = KINDS | JOURNAL_KINDS | {"slack.com", "mail.log", "workspace.json", "error.type", "card.action.trigger"}
"""What has the shape of a key and is none: kinds of the journal, a host, a logger, a file, an attribute of a span,
an event of Feishu."""


@pytest.fixture(scope="module")
def uses() -> KeyUses:
    found = find_key_uses(read_modules(), TOPICS)
    found.words.update(read_page_words())
    return found


def list_wrong_keys(uses: KeyUses) -> list[str]:
    """Keys that have no sentence, with where they are named."""
    known = load_sentences()
    built = {key: at for key, at in uses.patterns.items() if not any(re.fullmatch(key, one) for one in known)}
    named = uses.literals | {key: at for key, at in uses.elsewhere.items() if key not in NO_SENTENCES}
    return [f"{key} ({at})" for key, at in (built | {k: at for k, at in named.items() if k not in known}).items()]


def test_every_key_that_code_names_has_its_sentence(uses: KeyUses) -> None:
    assert len(uses.literals) > 400 and len(uses.elsewhere) > 60 and len(uses.patterns) > 80
    assert {"translate", "TextRef", "build_effect_outcome"} <= set(uses.places)
    assert sum(name.endswith(("_translate_for_person", "_post_ephemeral_notice")) for name in uses.places) == 2
    assert list_wrong_keys(uses) == []


def test_every_sentence_is_named_by_code(uses: KeyUses) -> None:
    """Why a process cannot be used is found by the words of the compiler, not by a key."""
    assert [key for key in load_sentences() if not uses.is_named(key) and not key.startswith(TOPIC)] == []


WRONG_KEYS = [
    ("tilte.mail", 'translate("tilte.mail", "zh")'),
    ("title.mial", 'TextRef(key="title.mial", params={})'),
    ("title.mial", 'TextRef(params={}, key="title.mail" if one else "title.mial")'),
    ("title.mial", 'translate({1: "title.mail", 2: "title.mial"}[number], "zh")'),
    ("title.mial", 'KEYS = {"mail": "title.mial"}'),
    ("title.mial", 'def build(key: str = "title.mial") -> None: ...'),
    ("tilte.mail", 'def tell(language, key): return translate(key, language)\ntell("zh", "tilte.mail")'),
    (r"tilte\.(.*)", 'TextRef(key=f"tilte.{name}")'),
    (r"title\.mial_(.*)", 'KEY = f"title.mial_{name}"'),
    (r"title\.(?:mial|lima)", "translate(f\"title.{'mial' if one else 'lima'}\", language)"),
]


def test_negative_control_a_wrong_key_is_found_however_it_is_named_and_what_is_logged_is_none() -> None:
    for wrong, text in WRONG_KEYS:
        assert list_wrong_keys(read(text)) == [f"{wrong} (made_up.py:{text.count(chr(10)) + 1})"]
    assert list_wrong_keys(read('log.info("card.not_brought", why="x")')) == []


def test_negative_control_a_sentence_that_nothing_names_is_found() -> None:
    assert not read("").is_named("title.mail") and read('A = "title.mail"').is_named("title.mail")
    built = 'translate(f"title.{kind}_{where}{too}", "en")\nKIND, TOO = "add_sign", "_more"\n'
    assert not read(built).is_named("title.add_sign_after") and read(f"{built}AT = 'after'").is_named(
        "title.add_sign_after"
    )


def read(text: str) -> KeyUses:
    modules: Sequence[Module] = [parse_module("made_up.py", text)]
    return find_key_uses(modules, TOPICS)


def test_a_missing_parameter_is_an_error_and_numbers_and_spaces_go_by_the_language() -> None:
    with pytest.raises(KeyError):
        translate("turn.too_long", "en")
    assert [translate("result.tasks", "en", n=n) for n in (0, 1, 2, "1")] == ["0 tasks", "1 task", "2 tasks", "1 task"]
    assert [translate("result.tasks", "zh", n=n) for n in (1, 2)] == ["1 项待办", "2 项待办"]
    by = {"张三": "张三已同意", "Ann Smith": "Ann Smith 已同意", "李四（代王五）": "李四（代王五）已同意"}
    assert {name: translate("outcome.approve", "zh", by=name) for name in by} == by
    assert translate("title.urge", "zh", names="李四", process="请假", request="L-1") == "催李四处理请假申请 L-1？"
    assert translate("receipt.by", "zh", by="李四", changed=" 有 空 格 ") == "李四  有 空 格 ", (
        "what people wrote stays"
    )


def test_no_key_stands_in_two_files() -> None:
    found = Counter[str]()
    for file in list_word_files():
        for topic, table in tomllib.loads(file.read_text(encoding="utf-8")).items():
            found.update(f"{topic}.{name}" for name in table)
    assert len(found) > 1_000 and [key for key, times in found.items() if times > 1] == []


# Every refusal offers a way out: whom to ask, what to say, what to mend, or when to come back

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
    [("不能审批自己的申请", "Nobody can decide their own request"), ("没有找到申请 {request}", "There is no request")],
)
def test_negative_control_a_dead_end_is_found(zh: str, en: str) -> None:
    assert list_dead_ends({"error.x": {"zh": zh, "en": en}}) == ["error.x zh", "error.x en"]
