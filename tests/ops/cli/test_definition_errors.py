"""Why a process file is refused: everything at once, with the line, in the reader's language."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bot.ops.cli import app
from bot.ops.cli.definition_errors import describe_definition_error, translate_reason
from tests.harness.corpus import corpus
from tests.harness.processes import FILES
from tests.tools.workflow.drawing import PEOPLE
from tests.tools.workflow.refused_files import CORPUS, EXPECTED, TYPES
from tools.workflow.bpmn.graph import InvalidDefinitionError
from tools.workflow.bpmn.reader import JUEL_NAMES, compile_bpmn
from tools.workflow.bpmn.xml import find_line, list_ignored_attributes
from tools.workflow.process.definition import compile_process, get_process_by_key, load_shipped_processes, parse_form
from tools.workflow.process.form_lines import split_place

CHINESE = re.compile(r"[\u4e00-\u9fff]")
TRIP, FORM = (FILES / "trip.bpmn").read_bytes(), (FILES / "trip.toml").read_bytes()


def refuse(bpmn: bytes, form: bytes = FORM) -> list[InvalidDefinitionError]:
    with pytest.raises(InvalidDefinitionError) as refused:
        compile_process(bpmn, form)
    return [refused.value, *refused.value.others]


def test_every_reason_has_words_in_both_languages(subtests: pytest.Subtests) -> None:
    assert len(EXPECTED) > 100
    for name in EXPECTED:
        with subtests.test(name):
            with pytest.raises(InvalidDefinitionError) as refused:
                compile_bpmn((CORPUS / f"{name}.bpmn").read_bytes(), TYPES, PEOPLE)
            for error in (refused.value, *refused.value.others):
                reason = " ".join(error.reason.split())
                assert translate_reason(reason, "en") == reason
                assert CHINESE.search(translate_reason(reason, "zh")), reason
    assert translate_reason("quite another thing", "zh") == "quite another thing", "without words it stays as it is"
    reason = "assignee: unknown person 'gives number, not true or false'; known: a"
    told = "assignee：没有人员 'gives number, not true or false'；可用的有：a"
    assert translate_reason(reason, "zh") == told, "what stands in one is none"


def test_everything_is_told_at_once_with_its_line() -> None:
    source = TRIP.replace(b"userTask", b"scriptTask").replace(b"parallelGateway", b"complexGateway")
    errors = refuse(source)
    lines = source.decode().splitlines()
    assert len(errors) == 6, errors
    for error in errors:
        line = find_line(source, error.element)
        assert f'id="{error.element}"' in lines[line - 1]
        assert describe_definition_error(error, source, "en").startswith(f"line {line}, {error.element}: <")
        assert describe_definition_error(error, source, "zh").startswith(f"第 {line} 行，{error.element}：")
    source = TRIP.replace(b"${finance}", b"${nobody}").replace(b"decision == 'resubmit'", b"decision = 'resubmit'")
    assert {error.element for error in refuse(source)} == {"finance_check", "resubmitted"}
    form = FORM.replace(b"{destination}", b"{place}", 1)
    source = TRIP.replace(b"decision == 'resubmit'", b"decision = 'resubmit'")
    elements = [error.element for error in refuse(source, form)]
    assert elements[0] == "form" and "resubmitted" in elements
    (error,) = refuse(TRIP[: len(TRIP) // 2])
    assert describe_definition_error(error, TRIP, "en").startswith(f"line {error.line}, file: not well-formed")
    assert error.line > 10


def test_a_name_that_means_something_to_juel_is_refused() -> None:
    for name in ("empty", "task", "execution", "mod", "not"):
        form = FORM.replace(b'"destination"', f'"{name}"'.encode()).replace(b"{destination}", f"{{{name}}}".encode())
        assert form != FORM and name in JUEL_NAMES
        (error,) = refuse(TRIP, form)
        assert name in error.reason and CHINESE.search(translate_reason(error.reason, "zh"))
        stored = compile_process(TRIP, form, is_stored=True)
        assert name in stored.form.variable_types or stored.form.find_field(name), "requests that run in it go on"


def test_what_has_no_effect_is_named() -> None:
    source = TRIP.replace(b'id="trip_definitions"', b'id="trip_definitions" expressionLanguage="http://x/groovy"', 1)
    source = source.replace(b'<bpmn:parallelGateway id="', b'<bpmn:parallelGateway gatewayDirection="Mixed" id="', 1)
    compile_process(source, FORM)
    names = [attribute for _, attribute in list_ignored_attributes(source)]
    assert names == ["expressionLanguage", "historyTimeToLive", "gatewayDirection"]
    assert [attribute for _, attribute in list_ignored_attributes(TRIP)] == ["historyTimeToLive"], "the control"


EXPENSE = get_process_by_key("expense", load_shipped_processes()).toml.decode()
WRONG_VALUES = ('"zz"', "7", "-7", "[]", '""', "true", "1.5", "{}", '["a", "b"]')


def list_form_errors(form: bytes) -> list[InvalidDefinitionError]:
    try:
        parse_form(form)
    except InvalidDefinitionError as refused:
        return [refused, *refused.others]
    return []


def test_every_problem_of_a_form_has_words_in_both_languages() -> None:
    """The shipped expense form with each line left out, and each value replaced by wrong ones."""
    lines, found = EXPENSE.splitlines(), dict[tuple[int, str], InvalidDefinitionError]()
    for number, line in enumerate(lines):
        key, sign, _ = line.partition(" = ")
        others = [[f"{key} = {value}"] for value in WRONG_VALUES] + [[line, f"{key}_x = 1"]] if sign else []
        for other in ([], *others):
            spoiled = "\n".join([*lines[:number], *other, *lines[number + 1 :]]).encode()
            found |= {(one.line, one.reason): one for one in list_form_errors(spoiled)}
    assert len(found) > 100
    told = {reason: describe_definition_error(one, b"", "zh") for (_, reason), one in found.items()}
    assert {reason: words for reason, words in told.items() if not CHINESE.search(words.partition("：")[2])} == {}
    for one in found.values():
        shown = describe_definition_error(one, b"", "en")
        assert shown.endswith(split_place(one.reason)[1]), "the English words are the reason itself"


@corpus(
    ("old", "new", "en", "zh"),
    ("max_length = 500", 'max_length = "long"', "field row 4, max_length: Input should be a valid integer",
     "[[field]] 第 4 项的 max_length：应当是整数"),
    ('field = "receipt"', 'field = "slip"', "require row 1: 'slip' is no field; known: ",
     "[[require]] 第 1 项：没有字段 'slip'；可用的有："),
    ('currency = "currency"', 'currency = "money"', "field amount: 'money' is no choice field",
     "字段 amount：'money' 不是 choice 类型的字段"),
    ("when = ", "when = 7 #", "require row 1, when: ", "[[require]] 第 1 项的 when：应当是文字"),
)  # fmt: skip
def test_a_problem_of_a_form_is_told_with_its_line(old: str, new: str, en: str, zh: str) -> None:
    assert old in EXPENSE
    lines = EXPENSE.replace(old, new, 1).splitlines()
    (error, *_) = list_form_errors("\n".join(lines).encode())
    assert 0 < error.line <= len(lines)
    told = {language: describe_definition_error(error, b"", language) for language in ("en", "zh")}
    assert en in told["en"] and told["en"].startswith(f"line {error.line}, ")
    assert zh in told["zh"] and told["zh"].startswith(f"第 {error.line} 行，")


ZEEBE = b'xmlns:zeebe="http://camunda.org/schema/zeebe/1.0"'
EIGHT = b'<bpmn:extensionElements><zeebe:assignmentDefinition assignee="=approver" /></bpmn:extensionElements>'
LATE = b'<bpmn:boundaryEvent id="late" attachedToRef="manager" cancelActivity="true" />'
POOL = b'<bpmn:collaboration id="c"><bpmn:participant id="p" processRef="trip" /></bpmn:collaboration>'


@corpus(
    ("old", "new", "element", "en", "zh"),
    (b"${decision == 'resubmit'}", b'=decision = "resubmit"', "resubmitted", "is FEEL, the language of Camunda 8",
     "是 FEEL（Camunda 8 的写法）"),
    (b"${approver}", b"=approver", "manager", "is FEEL, the language of Camunda 8", "是 FEEL（Camunda 8 的写法）"),
    (b"decision == 'resubmit'", b"decision = 'resubmit'", "resubmitted", "equality is written ==", "相等写作 =="),
    (b'<bpmn:process id="trip"', POOL + b'<bpmn:process id="trip"', "c", "pool", "泳池"),
    (b'<bpmn:startEvent', b'<bpmn:laneSet id="l" /><bpmn:startEvent', "l", "lane", "泳道"),
    (b"userTask", b"task", "manager", "make it a user task", "改成用户任务"),
    (b"userTask", b"manualTask", "manager", "make it a user task", "改成用户任务"),
)  # fmt: skip
def test_what_the_trade_draws_otherwise_is_refused_with_what_to_do(
    old: bytes, new: bytes, element: str, en: str, zh: str
) -> None:
    source = TRIP.replace(old, new)
    assert source != TRIP
    error = refuse(source)[0]
    assert error.element == element
    assert en in describe_definition_error(error, source, "en"), error
    assert zh in describe_definition_error(error, source, "zh"), error


def test_a_file_for_camunda_8_is_told_as_one_and_a_mark_of_its_modeler_alone_is_none() -> None:
    source = TRIP.replace(b"xmlns:bpmn=", ZEEBE + b" xmlns:bpmn=", 1)
    compile_process(source, FORM)  # the control: a name that nothing uses
    source = source.replace(b"<bpmn:incoming>to_manager", EIGHT + b"<bpmn:incoming>to_manager", 1)
    first, second = refuse(source)
    assert all("Camunda 8" in describe_definition_error(first, source, language) for language in ("en", "zh"))
    assert (first.element, second.element) == ("file", "manager")


@pytest.mark.parametrize("form", [b"[[", b"key = 7", FORM.replace(b'kind = "text"', b'kind = "words"'), b"\xff"])
def test_a_form_that_cannot_be_read_hides_nothing_that_is_wrong_with_the_diagram(form: bytes) -> None:
    errors = refuse(TRIP.replace(b"userTask", b"scriptTask"), form)
    assert errors[0].element == "form" and sum(error.element == "manager" for error in errors) == 1, errors
    feel = TRIP.replace(b"${decision == 'resubmit'}", b"=decision").replace(
        b"</bpmn:process>", LATE + b"</bpmn:process>"
    )
    assert {error.element for error in refuse(feel, form)} == {"form", "resubmitted", "late"}
    assert {error.element for error in refuse(TRIP, form)} == {"form"}, "the control: nothing is made up"


def test_each_problem_is_told_of_the_file_that_it_is_in(tmp_path: Path) -> None:
    (tmp_path / "trip.bpmn").write_bytes(TRIP)
    (tmp_path / "trip.toml").write_bytes(FORM.replace(b"{destination}", b"{place}", 1))
    done = CliRunner().invoke(app, ["processes", "check", str(tmp_path / "trip.bpmn")])
    assert str(done.exception).startswith(("trip.toml cannot be used: line ", "trip.toml 不能使用：第 "))
    (tmp_path / "trip.bpmn").write_bytes(TRIP.replace(b"decision == 'resubmit'", b"decision = 'resubmit'"))
    done = CliRunner().invoke(app, ["processes", "check", str(tmp_path / "trip.bpmn")])
    told = [line.partition(":")[0] for line in done.output.splitlines()]
    assert told == ["trip.toml", "trip.bpmn"], done.output
