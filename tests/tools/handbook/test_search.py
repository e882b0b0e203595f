"""Splitting at headings, and what a question finds: on the demo handbook, in both languages; and the ranking itself."""

from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st

from tests.harness.corpus import corpus
from tools.handbook.folder import Handbook, HandbookSnapshot
from tools.handbook.ranking import build_index, extract_terms
from tools.handbook.sections import HEADING, HEADINGS, split_sections

MARKDOWN = st.lists(
    st.sampled_from(["# A", "## B", "### C", "A", "===", "---", "```", "> # q", "- # l", "    # code", "", "文字", "#"])
    | st.text(max_size=20),
    max_size=20,
).map("\n".join)


def test_sections_of_a_file_and_what_only_looks_like_a_heading() -> None:
    text = "before\n# Leave\nall\n## Annual\n10 days\n\nUnder\n-----\nlined\n# Leave\nagain"
    found = split_sections("a/b.md", text)
    ids, headings = zip(*((one.id, one.heading) for one in found), strict=True)
    assert ids == ("a/b.md", "a/b.md#Leave", "a/b.md#Annual", "a/b.md#Under", "a/b.md#Leave (2)")
    assert headings == ("", "Leave", "Leave › Annual", "Leave › Under", "Leave")
    assert (found[2].text, found[2].body) == ("## Annual\n10 days\n\n", "10 days\n\n")
    assert found[3].text == "Under\n-----\nlined\n"
    assert len(split_sections("a.md", "```\n# code\n```\n> # quoted\n\n- # listed\n\n    # indented\n#hash")) == 1


@given(MARKDOWN | st.text())
@example("\ufeff# x\r\ny\rz\x0c\x00\u2028# w")
def test_the_texts_of_all_sections_are_the_file(text: str) -> None:
    found = split_sections("f.md", text)
    whole = "".join(one.text for one in found)
    expected = text.replace("\r\n", "\n").replace("\r", "\n")
    kept = "".join("\ufffd" if c < " " and c not in "\n\t" else c for c in expected)
    assert kept.endswith(whole) and not kept.removesuffix(whole).strip(), "only blank lines before the first heading go"


@given(MARKDOWN)
def test_every_section_is_found_by_its_name_and_names_are_bounded(text: str) -> None:
    found = split_sections("f.md", text)
    book = HandbookSnapshot(found)
    for one in found:
        assert book.find_section(one.id) is one and book.find_section(f" {one.id.upper()} ") is one
        assert len(one.id) <= len("f.md#") + HEADING + 10 and len(one.heading) <= HEADINGS
        assert one.text.endswith(one.body)


DEMO = Path("bot/dev/demo/handbook")
QUESTIONS = [
    ("年假可以结转吗", "leave.zh.md#年假结转"),
    ("没休完的年假明年还能用吗？", "leave.zh.md#年假结转"),
    ("我一年有多少天年假", "leave.zh.md#年假天数"),
    ("请假要提前几天申请", "leave.zh.md#提前多久申请"),
    ("请5天假需要谁审批？", "leave.zh.md#谁审批"),
    ("生病请假需要医院证明吗", "leave.zh.md#病假条"),
    ("可以只请半天吗", "leave.zh.md#半天假"),
    ("调休上班的周末算工作日吗", "leave.zh.md#工作日怎么算"),
    ("结婚可以休几天", "leave.zh.md#婚假、产假、陪产假和丧假"),
    ("事假带薪吗", "leave.zh.md#事假和调休"),
    ("领导一直不审批怎么办，可以催吗", "leave.zh.md#催办和超时"),
    ("已经通过的假怎么撤回", "leave.zh.md#撤回、修改和销假"),
    ("住宿标准", "expense.zh.md#住宿标准"),
    ("北京的酒店一晚最多报多少", "expense.zh.md#住宿标准"),
    ("发票丢了怎么办", "expense.zh.md#发票和票据"),
    ("报销最晚什么时候提交", "expense.zh.md#报销期限"),
    ("坐高铁可以买一等座吗", "expense.zh.md#交通标准"),
    ("出差餐补一天多少", "expense.zh.md#餐费和出差补贴"),
    ("请客户吃饭的标准", "expense.zh.md#招待客户"),
    ("美元的费用按什么汇率", "expense.zh.md#币种和汇率"),
    ("多少钱以上要财务会签", "expense.zh.md#谁审批报销"),
    ("报销款什么时候到账", "expense.zh.md#付款时间"),
    ("Can I carry over unused annual leave?", "leave.en.md#Carry-over of annual leave"),
    ("how many days notice do I have to give", "leave.en.md#Notice periods"),
    ("How many days of annual leave do I have?", "leave.en.md#Annual leave allowance"),
    ("who has to approve 5 days of leave", "leave.en.md#Who approves"),
    ("do I need a doctor's note for two sick days", "leave.en.md#Sick notes"),
    ("can I take half a day off", "leave.en.md#Half days"),
    ("days off for a wedding", "leave.en.md#Marriage, maternity, paternity and bereavement"),
    ("my approver does not answer, can I urge them", "leave.en.md#Reminders and delays"),
    ("hotel limit in Shanghai", "expense.en.md#Hotel limits"),
    ("what is the deadline for expense claims?", "expense.en.md#Deadline for claims"),
    ("I lost a receipt", "expense.en.md#Receipts and invoices"),
    ("can I fly business class", "expense.en.md#Trains, flights and taxis"),
    ("meal allowance on a trip", "expense.en.md#Meals and daily allowance"),
    ("which exchange rate is used", "expense.en.md#Currency and exchange rate"),
    ("when do I get my money", "expense.en.md#When money is paid"),
    ("does finance have to approve 1500 CNY", "expense.en.md#Who approves expenses"),
    ("are parking fines refunded", "expense.en.md#What is not refunded"),
    ("taking a client to dinner", "expense.en.md#Entertaining clients"),
]


def places() -> dict[str, int]:
    """Where the right section stands among what each question finds; 99: not at all."""
    book = Handbook(DEMO).load_snapshot()
    found = {question: [one.id for one in book.search_sections(question)] for question, _ in QUESTIONS}
    return {q: found[q].index(right) if right in found[q] else 99 for q, right in QUESTIONS}


def test_questions_in_both_languages_find_their_section() -> None:
    place = places()
    missed = {question: at for question, at in place.items() if at >= 3}
    assert len(missed) <= 0.05 * len(QUESTIONS), missed
    assert sum(at == 0 for at in place.values()) >= 0.8 * len(QUESTIONS), place


def test_a_rare_word_counts_more_than_a_common_one_and_without_pairs_chinese_finds_nothing() -> None:
    assert build_index(["leave leave", "leave hotel", "leave"]).rank_texts("hotel leave")[0] == 1
    assert build_index([f"hotel {'word ' * 50}", "hotel"]).rank_texts("hotel") == [1, 0]
    assert build_index(["年假当年有效，不能结转"]).rank_texts("年假可以结转吗") == [0]
    assert set(extract_terms("结转")) == {"结转"} and "年假可以结转吗" not in set(extract_terms("年假可以结转吗"))


@corpus(
    ("text", "found"),
    ("Claims, CLAIMED; claim", ["claim"] * 3), ("ＡＢＣ１２", ["abc12"]), ("假", ["假"]),
    ("休假 3天", ["休假", "3", "天"]), ("días ñandú", ["días", "ñandú"]), ("", []), ("…、。!", []),
)  # fmt: skip
def test_terms(text: str, found: list[str]) -> None:
    assert list(extract_terms(text)) == found


@given(st.lists(st.text(max_size=30), max_size=6), st.text(max_size=30))
def test_everything_that_has_a_term_of_the_query_is_found_and_nothing_else(texts: list[str], query: str) -> None:
    asked = set(extract_terms(query))
    having = {n for n, text in enumerate(texts) if asked & set(extract_terms(text))}
    ranked = build_index(texts).rank_texts(query)
    assert set(ranked) == having and len(ranked) == len(having)
