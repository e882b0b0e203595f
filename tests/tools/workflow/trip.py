"""A process whose form uses everything a form can say; its graph is a plain line of tasks."""

from tools.workflow.bpmn.graph import FlowNode, NodeKind, ProcessDefinition, SequenceFlow, ServiceTopic
from tools.workflow.process.definition import Process, parse_form

CHOICES = """choices = [
  { value = "sick", zh = "病假", en = "Sick leave" },
  { value = "annual", zh = "年假", en = "Annual leave" },
]"""
FIELDS = (
    # name, kind, label, what else
    ("kind", "choice", "类型", "Kind", f'default = "sick"\n{CHOICES}'),
    ("start_date", "date", "开始", "First day", 'default = "2026-11-23"\nhalf = "start_half"'),
    ("start_half", "half", "开始半天", "First half", 'default = "am"'),
    ("end_date", "date", "结束", "Last day", 'default = "2026-11-24"\nhalf = "end_half"'),
    ("end_half", "half", "结束半天", "Last half", 'default = "pm"'),
    ("travellers", "number", "人数", "Travellers", "required = false"),
    ("attachment", "attachment", "附件", "Attachment", "required = false"),
    ("approver", "person", "审批人", "Approver", ""),
    ("reviewers", "people", "评审", "Reviewers", "required = false"),
    ("handover", "person", "交接人", "Handover", "required = false"),
    ("cc", "people", "抄送", "Copies", "required = false"),
)


def write_field(name: str, kind: str, zh: str, en: str, more: str) -> str:
    words = f'{{ zh = "{zh}", en = "{en}" }}'
    return f'[[field]]\nname = "{name}"\nkind = "{kind}"\nlabel = {words}\nhelp = {words}\n{more}\n'


HEAD = """
key = "trip"
number = "T"
name = { zh = "出差", en = "trip" }
purpose = { zh = "出差申请", en = "Ask for a business trip" }
summary = { zh = "{kind} {start_date}，{days} 天", en = "{kind} from {start_date}, days: {days}" }
numbers = { annual_days = "10" }
days = { start = "start_date", start_half = "start_half", end = "end_date", end_half = "end_half" }
balance = { field = "kind", value = "annual", allowance = "annual_days" }
level = [
  { name = "second", label = { zh = "二级", en = "Second approver" } },
  { name = "board", label = { zh = "会签", en = "Board" }, many = true },
]
require = [{ field = "attachment", when = "${kind == 'sick' && days > 3}" }]
policy = [
  { level = "approver", when = "${travellers > 5}", who = ["role director"], others = "flagged" },
  { level = "approver", department = "Sales", who = ["person lin@example.com"], others = "flagged" },
  { level = "approver", who = ["manager"], others = "flagged" },
  { level = "reviewers", who = ["person lin@example.com"], others = "flagged" },
  { level = "second", who = ["manager of approver", "role finance"] },
  { level = "board", who = ["role director", "role finance", "person lin@example.com"] },
]
"""

FORM = HEAD + "".join(write_field(*one) for one in FIELDS)
TOLD = """
[[cc]]
node = "tell"
who = ["field handover", "field cc", "role finance"]
[[mail]]
node = "mail"
to = "role finance"
subject = { zh = "{kind}：{handover}", en = "{kind}: {handover}" }
body = { zh = "{days} 天，抄送 {cc}", en = "{days} days, copies to {cc}" }
"""


def user(id: str, *who: str) -> FlowNode:
    return FlowNode(id=id, kind=NodeKind.USER, name=id, who=who)


def service(id: str, topic: ServiceTopic) -> FlowNode:
    return FlowNode(id=id, kind=NodeKind.SERVICE, topic=topic)


TELL, MAIL = service("tell", ServiceTopic.CC), service("mail", ServiceTopic.MAIL)


def line(*nodes: FlowNode) -> ProcessDefinition:
    names = ["start", *(n.id for n in nodes), "trip_approved"]
    start, end = (FlowNode(id="start", kind=NodeKind.START), FlowNode(id=names[-1], kind=NodeKind.END, end="approved"))
    known = {
        node.id: node.model_copy(update={"routes": (SequenceFlow(flow=f"to_{to}", to=to),) if to else ()})
        for node, to in zip([start, *nodes, end], [*names[1:], ""], strict=True)
    }
    return ProcessDefinition(key="trip", version="0", start="start", nodes=known)


def trip(*nodes: FlowNode, form: str = FORM) -> Process:
    told = TOLD if TELL in nodes else ""
    toml = (form + told).encode()
    return Process(line(*nodes), parse_form(toml), b"", toml)
