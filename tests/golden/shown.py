"""A message, a form and a page of each kind, as a platform is asked to show them."""

from dataclasses import replace

from bot.chat.messages import (
    Button,
    Card,
    Dialog,
    FormDialog,
    FormInput,
    HomeButton,
    HomeDialog,
    HomeEntry,
    HomeSection,
    HomeView,
    MessageRef,
    Moment,
    NamedPeople,
    NamedPerson,
    PersonPicker,
    Place,
    Post,
    StepLine,
    StepList,
    StepState,
    TickList,
    TickOption,
)
from tools.spec import DialogField

AT = Moment(1_795_140_000_000, "2026-11-20 10:00")
NAMESAKE = NamedPerson("U1", "张三", "zhang@example.com", ("研发部",), ("名字与别人相同",))
WHO = NamedPeople((NAMESAKE, NamedPerson("U2", "李四")), "两位")
BUTTONS = (Button("同意", "approve", "A1", 2, "primary", "5ea1"), Button("驳回", "reject", "A1", 2, seal="5ea1"))
CARD = Card(
    title="发起请假申请？", lead="先前的意见", body="原文\n第二行", buttons=BUTTONS, footer=(AT, " 前有效"),
    facts=(("事由", "去看父母"), ("说明", "*粗体* <@U9>"), ("天数", "2"), ("审批人", WHO), ("空", "")),
    ticks=TickList("A1", 2, (TickOption("0", "张三 86.50", "打车"), TickOption("1", "李四 20", is_ticked=False))),
)  # fmt: skip
RATINGS = (Button("👍", "feedback_good", "R1", 1, hint="好"), Button("👎", "feedback_bad", "R1", 1, hint="不好"))
POSTS = {
    "text with receipt and ratings": Post("**好的**。", receipt="系统记录：没有做任何改动", pairs=(RATINGS,)),
    "somebody's own words": Post("*不是粗体*", plain=True),
    "words, people and a moment": Post("张三同意", rich=(NamedPerson("U1", "张三"), " 同意于 ", AT)),
    "a question with people, a button and a picker": Post(
        "是哪一位？", people=WHO, buttons=BUTTONS[1:], picker=PersonPicker("选择", "manager", "R1", 1)
    ),
    "card": Post("通知", card=CARD),
    "card that is over": Post("通知", card=replace(CARD, buttons=(), ticks=None, when=AT, footer="")),
    "card that is void": Post("通知", card=replace(CARD, buttons=(), ticks=None, is_void=True)),
    "steps": Post("步骤", steps=StepList("用时 1 秒", tuple(StepLine(one.value, "为什么", one) for one in StepState))),
}
PLACE = Place(team="T1", channel="D1", direct=True)
VALUES = {
    "text": "x", "long": "x\ny", "date": "2026-11-20", "choice": "a", "number": "1.5", "person": "U1",
    "people": "U1,U2", "file": "F1", "shown": "read *this*",
}  # fmt: skip
FIELDS = tuple(
    DialogField(
        name=kind,
        label=kind,
        kind=kind,
        value=value,
        required=kind == "text",
        choices=(("a", {"zh": "甲", "en": "A"}),),
    )
    for kind, value in VALUES.items()
)
OPTIONS = (("a", "甲"),)
DIALOG = Dialog(
    title="驳回 L-0001", submit="驳回", cancel="关闭", approval="A1", version=2, choice="reject", place=PLACE,
    inputs=tuple(FormInput(one, one.name, OPTIONS, "提示") for one in FIELDS),
    card=MessageRef(channel="D1", ts="1.0"), lead="缺发票", matter="张三的请假申请",
    about=(("事由", "去看父母"), ("审批人", WHO)), more="更多", kept=(("name", "value"),), seal="5ea1",
)  # fmt: skip
INPUT = FormInput(FIELDS[0], "事由", hint="提示", is_watched=True)
FORM = FormDialog(
    title="请假", submit="核对", cancel="关闭", process="leave", page=1,
    inputs=(INPUT, FormInput(FIELDS[3], "种类", OPTIONS)), values=(("start_date", "2026-11-20"),),
    notes=("2 天",), warnings=("太长",), more="更多", choices=(("leave", "请假"),), kept=("F1",),
)  # fmt: skip
ENTRY = HomeEntry(replace(CARD, ticks=None), (HomeButton("查看", "open", "A1.2"),))
SECTION = HomeSection("等我处理", (ENTRY,), note="还有 3 项", buttons=(HomeButton("下一页", "turn", "tasks.5"),))
HOME = HomeView(
    "我的审批", (SECTION, HomeSection("我的申请", empty="没有")), request="发起…", freshness="截至 10:00", start="开始"
)
HOME_DIALOG = HomeDialog(
    title="催办", cancel="关闭", submit="催办", action="urge", value="L-0001", notice="变了",
    card=replace(CARD, ticks=None), inputs=(INPUT,), form=(("text", "y"),), seal="5ea1",
    buttons=(HomeButton("查看", "open", "A1.2"),),
)  # fmt: skip
