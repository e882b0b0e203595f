"""A process whose form uses everything a form can say; its graph is a plain line of tasks."""

from __future__ import annotations

from tools.workflow.bpmn.graph import FlowNode, NodeKind, ProcessDefinition, SequenceFlow, ServiceTopic
from tools.workflow.process.definition import Process, parse_form

FORM = """
key = "trip"
number = "T"
name = { zh = "出差", en = "trip" }
purpose = { zh = "出差申请", en = "Ask for a business trip" }
summary = { zh = "{kind} {start_date}，{days} 天", en = "{kind} from {start_date}, days: {days}" }
numbers = { annual_days = "10" }
days = { start = "start_date", start_half = "start_half", end = "end_date", end_half = "end_half" }
balance = { field = "kind", value = "annual", allowance = "annual_days" }

[[field]]
name = "kind"
kind = "choice"
label = { zh = "类型", en = "Kind" }
help = { zh = "类型", en = "Kind" }
default = "sick"
choices = [{ value = "sick", zh = "病假", en = "Sick leave" }, { value = "annual", zh = "年假", en = "Annual leave" }]

[[field]]
name = "start_date"
kind = "date"
label = { zh = "开始", en = "First day" }
help = { zh = "日期", en = "Date" }
default = "2026-11-23"
half = "start_half"

[[field]]
name = "start_half"
kind = "half"
label = { zh = "开始半天", en = "First half" }
help = { zh = "半天", en = "Half" }
default = "am"

[[field]]
name = "end_date"
kind = "date"
label = { zh = "结束", en = "Last day" }
help = { zh = "日期", en = "Date" }
default = "2026-11-24"
half = "end_half"

[[field]]
name = "end_half"
kind = "half"
label = { zh = "结束半天", en = "Last half" }
help = { zh = "半天", en = "Half" }
default = "pm"

[[field]]
name = "travellers"
kind = "number"
required = false
label = { zh = "人数", en = "Travellers" }
help = { zh = "几个人", en = "How many" }

[[field]]
name = "attachment"
kind = "attachment"
required = false
label = { zh = "附件", en = "Attachment" }
help = { zh = "链接", en = "Link" }

[[field]]
name = "approver"
kind = "person"
label = { zh = "审批人", en = "Approver" }
help = { zh = "谁审批", en = "Who approves" }

[[field]]
name = "reviewers"
kind = "people"
required = false
label = { zh = "评审", en = "Reviewers" }
help = { zh = "谁评审", en = "Who reviews" }

[[field]]
name = "handover"
kind = "person"
required = false
label = { zh = "交接人", en = "Handover" }
help = { zh = "谁接手", en = "Who takes over" }

[[field]]
name = "cc"
kind = "people"
required = false
label = { zh = "抄送", en = "Copies" }
help = { zh = "告诉谁", en = "Whom to tell" }

[[level]]
name = "second"
label = { zh = "二级", en = "Second approver" }

[[level]]
name = "board"
label = { zh = "会签", en = "Board" }
many = true

[[require]]
field = "attachment"
when = "${kind == 'sick' && days > 3}"

[[policy]]
level = "approver"
when = "${travellers > 5}"
who = ["role director"]
others = "flagged"

[[policy]]
level = "approver"
department = "Sales"
who = ["person lin@example.com"]
others = "flagged"

[[policy]]
level = "approver"
who = ["manager"]
others = "flagged"

[[policy]]
level = "reviewers"
who = ["person lin@example.com"]
others = "flagged"

[[policy]]
level = "second"
who = ["manager of approver", "role finance"]

[[policy]]
level = "board"
who = ["role director", "role finance", "person lin@example.com"]
"""

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
    """One node after the other."""
    names = ["start", *(n.id for n in nodes), "trip_approved"]
    ends = [
        FlowNode(id="start", kind=NodeKind.START),
        *nodes,
        FlowNode(id="trip_approved", kind=NodeKind.END, end="approved"),
    ]
    known = {
        node.id: node.model_copy(update={"routes": (SequenceFlow(flow=f"to_{to}", to=to),) if to else ()})
        for node, to in zip(ends, [*names[1:], ""], strict=True)
    }
    return ProcessDefinition(key="trip", version="0", start="start", nodes=known)


def trip(*nodes: FlowNode, form: str = FORM) -> Process:
    told = TOLD if TELL in nodes else ""
    toml = (form + told).encode()
    return Process(line(*nodes), parse_form(toml), b"", toml)
