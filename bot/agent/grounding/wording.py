"""The words with which answers claim an action, promise one, or point to a card. Pure.

Each pattern is for one clause, in lower case for English."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ActionKind:
    """A kind of action: its tools, and the words for it."""

    name: str
    tools: frozenset[str]
    zh: str
    en: str
    stems: str
    """Further words that results use for it."""
    is_state: bool = False
    """Others cause it too, so a result that reports it is enough."""
    takes_people: bool = False
    """The recipients are part of it."""

    def is_mentioned_in(self, text: str) -> bool:
        return self.pattern.search(text) is not None

    @property
    def pattern(self) -> re.Pattern[str]:
        return WORDS[self.name]


STARTS = frozenset({"start_process", "resubmit_request"})
TELLS = STARTS | {
    "send_email", "urge_task", "cc_request", "comment_request", "transfer_task", "add_sign", "decide_task",
    "withdraw_request",
}  # fmt: skip
ACTION_KINDS = (
    ActionKind(
        "sent",
        frozenset({"send_email"}),
        zh="发送|发出|发给|发到|送达|寄出|寄给|发了|发过|发过去|转发",
        en="sent|e-mailed|emailed|mailed|forwarded|delivered|on its way to|went out",
        stems="发了邮件|send|mailed|forward|deliver",
        takes_people=True,
    ),
    ActionKind(
        "submitted",
        STARTS,
        zh="提交|发起|递交|请好|报好|报上|申请好|上报|创建|新建",
        en="submitted|resubmitted|started|filed|lodged|created|applied for",
        stems="已发起|submit|start|create|apply|file",
    ),
    ActionKind(
        "approved",
        frozenset({"decide_task", "start_process", "withdraw_request"}),
        zh="批准|通过|同意|批了|批复",
        en="approved|passed|agreed",
        stems="approve",
        is_state=True,
    ),
    ActionKind(
        "rejected",
        frozenset({"decide_task"}),
        zh="驳回|拒绝|退回",
        en="rejected|declined|returned",
        stems="reject|return|denied",
        is_state=True,
    ),
    ActionKind(
        "withdrawn",
        frozenset({"withdraw_request"}),
        zh="撤回|撤销",
        en="withdrawn|withdrew|revoked|revoking",
        stems="withdraw|revok",
        is_state=True,
    ),
    ActionKind(
        "cancelled",
        frozenset({"cancel_card", "end_absence", "withdraw_request"}),
        zh="取消|作废|删除|收回",
        en="cancelled|canceled|deleted|removed",
        stems="cancel|delete|remove|taken back|took the card back|withdraw|收回|撤回|denied|结束|ended",
        is_state=True,
    ),
    ActionKind(
        "transferred",
        frozenset({"transfer_task"}),
        zh="转交|转给|移交",
        en="transferred|handed over|reassigned",
        stems="transfer|assign",
        takes_people=True,
    ),
    ActionKind(
        "urged",
        frozenset({"send_email", "urge_task"}),
        zh="催办|催了|催过|催促|催到|提醒",
        en="urged|reminded|nudged|chased|followed up",
        stems="urge|remind|催",
        takes_people=True,
    ),
    ActionKind(
        "notified",
        TELLS,
        zh="通知|告知|告诉|转告|知会|联系",
        en="notified|informed|alerted|contacted|messaged|pinged|reached out",
        stems="notif|inform|抄送|told|mailed|发了邮件|urged|催",
        takes_people=True,
    ),
    ActionKind(
        "commented",
        frozenset({"comment_request"}),
        zh="评论|留言",
        en="commented",
        stems="comment",
    ),
    ActionKind(
        "copied",
        frozenset({"cc_request", "send_email"}),
        zh="抄送",
        en="copied|cc'd|cced",
        stems="cc|told",
        takes_people=True,
    ),
    ActionKind(
        "delegated",
        frozenset({"set_absence"}),
        zh="委托",
        en="delegated",
        stems="stands? in|代理|absence|deput",
    ),
    ActionKind(
        "booked",
        STARTS,
        zh="预订|预定|订好|订了|约好|预约|订妥|安排好|安排了",
        en="booked|reserved|scheduled|arranged|ordered",
        stems="book|reserv|schedul|event|meeting|order|预",
    ),
    ActionKind(
        "paid",
        frozenset(),
        zh="付款|支付|打款|转账|到账",
        en="paid|reimbursed",
        stems="pay|paid|transfer",
    ),
    ActionKind(
        "changed",
        STARTS | frozenset({"add_sign", "cancel_card", "cc_request", "comment_request", "end_absence", "set_absence"}),
        zh="加签|添加|加到|加入|加上|更新|修改|改成|改为|改好|改到|改了|设置|设好|设为|登记",
        en="added|updated|changed|modified|edited|moved|saved|rescheduled|set up",
        stems="加签|add|updat|chang|creat|edit|set|resubmit|修改",
    ),
)
WORDS = {one.name: re.compile(rf"{one.zh}|{one.en}|{one.stems}", re.I) for one in ACTION_KINDS}
BY_WORD = {word: one for one in reversed(ACTION_KINDS) for word in f"{one.zh}|{one.en}".split("|")}
WORD = re.compile("|".join(sorted(map(re.escape, BY_WORD), key=lambda word: -len(word))))
OTHERS = re.compile(
    r"通过(?:了)?(?:邮件|卡片|系统|电话|短信|以下|下面|上面|这|点|按|.{0,8}(?:发送|发给|通知|联系|告诉|查))"
)
"""通过 in the sense of *by means of*."""
CHATTY = re.compile(
    r"没问题|没关系|没事|不客气|不好意思|不用担心|不用客气|请放心|请您放心|请查收|请注意|请知悉|请稍等|请稍候|稍等|稍候|请留意|"
    r"\bno (?:problem|worries)\b|not a problem|"
    r"\b(?:can|may|let me|happy to|glad to|want to|like to|pleased to)\s(?:confirm|report|say|tell you|"
    r"let you know|see)\b(?:\sthat\b)?"
)
DONE_BEHIND = re.compile(
    r"(?:了(?!吗|么|没|后|之后|以后|才|再)|成功|好了|完毕|完成|出去了|过(?!程|期)|给[^,。;]{1,12}了)"
)
NOT_ZH = re.compile(
    r"[没未不尚]|等(?!级)|待(?!办)|可以|可能|可在|可点|将|会(?!议)|要(?!求|事)|(?<!申)请(?!假|示)|收到|看到|"
    r"如(?!下|上|此|期|约)|能(?!源)|需|想|准备(?!好)|打算|若|要是|一旦|只要|"
    r"假如|是否|只有|必须|应该|无法|暂|无需|正在|别|勿|谁|哪|怎|并非|直到|除非|之前先"
)
BETWEEN_ZH = re.compile(
    r"[没未不]|等(?!级)|待(?!办)|可以|可能|会(?!议)|要(?!求|事)|(?<!申)请(?!假|示)|收到|看到|需(?!求)|准备(?!好)|"
    r"无法|暂|正在"
)
"""Words that may not stand between 已 and the word for an action."""
COUNTERMANDED = re.compile(r"如果|若|要是|一旦|只要|假如|是否|除非|等|待|直到|[没未]有?(?:已|被)")
ATTRIBUTE = re.compile(
    r"(?:了|过|好)?(?:给[^,。;的]{1,8})?的(?!$|是|[,。;!])|(?:了|成功|好|完)?(?:之|以)?(?:[前后]|时(?!间))"
)
NOUN = re.compile(
    r"(?:申请|请求|人|权限|方式|流程|记录|功能|规则|按钮|理由|意见|邮箱|者|率|单|限制|原因|环节|条件|"
    r"状态)(?!.{0,12}了)"
)
EN_SUBJECT = re.compile(
    r"(?:\b(?:have|has|had|was|were|is|are|been|got|i|we|it's|that's|i've|we've|they've|'ve|'s|successfully|"
    r"already|just|hereby)"
    r"\s+(?:(?:[a-z]{2,12}ly|now|just|already|also|all|both|since|then|been|gone ahead and|went ahead and|"
    r"each)\s+){0,3})$"
)
PRESENT, USUALLY = (
    re.compile(r"\b(?:is|are)\s(?:[a-z]{2,12}ly\s)?$"),
    re.compile(r"\s(?:by|to|when|if|once|after|up|at|only|within)\b"),
)
MANY, THESE = (
    re.compile(r"\bare\s(?:[a-z]{2,12}ly\s)?$"),
    re.compile(r"\b(?:both|all|your|they|the two|[a-z]{1,3}-[0-9]{3,6})\b"),
)
"""Habits: *requests are approved by a director*."""
EN_HEAD = re.compile(
    r"^(?:[\W_]|\b(?:done|ok|okay|all set|great|sure|yes|and|both|successfully|just|already|now|perfect|good news|"
    r"alright)\b){0,12}$|[:|(✅✓-]\s{0,2}$"
)
EN_NOUN = re.compile(
    r"(?:\b(?:request|mail|e-mail|email|reminder|message|claim|leave|expense|notification|invitation|meeting|room|"
    r"flight|hotel|"
    r"ticket|card|comment|it)|\b[a-z]{1,3}-[0-9]{3,6}(?:-[0-9]{1,3})*)\s(?:successfully\s|already\s|now\s)?$"
)
EN_FINITE = re.compile(r"\b(?:is|are|was|were|has|have|had|will|waits|needs|can|must|goes|stays)\b")
EN_OTHERS = re.compile(
    r"(?:\b(?:he|she|they|manager|finance|director|boss|approver)|\b[a-z]{2,12}\s[a-z]{2,12})\s(?:has\s|have\s|"
    r"just\s|already\s){0,2}$"
)
EN_AND = re.compile(r"\b(?:and|then|&)\s(?:also\s|then\s|already\s|have\s)?$")
EN_I = re.compile(r"\b(?:i|we|i've|we've|was|were|been|has|have)\b")
NOT_EN = re.compile(
    r"\b(?:not|never|no|nothing|none|nobody|no one|neither|nor|without|if|once|when|whenever|until|unless|before|"
    r"whether|will|"
    r"would|can|could|may|might|should|shall|must|to be|to have|needs?|want|let|please|waits?|waiting|pending|yet|"
    r"cannot|unable|"
    r"going to|about to|ready to|how|in case|as soon as|after|be|being|who|whoever|whom|must|only|says|said|want|"
    r"any|which|"
    r"what|try|tried|failed)\b|n't\b|'ll\b"
)
OF_REQUEST = re.compile(
    r"request|claim|leave|level|rule|expense|application|\bit\b|[a-z]{1,3}-[0-9]{3,6}|status|申请|审批|请假|报销|假"
)
GIVEN_BACK = re.compile(r"\s(?:to (?:you|its|the)|for)|\W*$")
MAILS, CARDS = re.compile(r"mail|邮|信(?!息)|minutes|message", re.I), re.compile(r"\bcards?\b|卡片", re.I)
YOU = re.compile(r"^\W*+(?:您|你|you\b|you've\b)(?!的)", re.I)
PLEASE = re.compile(
    r"请(?:您|你)?(?:先)?(?:告诉|提供|补充|说明|问|确认|点|按)|\bplease\b|\b(?:tell|give|send) me\b|"
    r"\blet me know (?:the|your|which|who|what)\b",
    re.I,
)
PROMISE_ZH = re.compile(
    r"(?:我(?:们|这边|明天|上午|下午|今天|晚上|稍后|随后|到时候?|届时|先|也|一定|现在|就|马上|立刻|"
    r"立即){0,4}(?:会|将|来|去|这就|马上|稍后|随后|立即|立刻|现在就)|"
    r"^\W*+(?:好的)?\W*+(?:这就|马上|正在)(?:去)?(?:为|帮|替|给)?|正在(?:为|帮|"
    r"替)[您你])(?:[^,。;!?\n不没无能]{0,14}?)"
    r"(?P<verb>发送|发给|发一|发出|提交|发起|提醒|通知|催|跟进|告知|告诉|反馈|预订|预定|联系|撤回|取消|办理|处理|"
    r"安排|关注|留意|订)"
)
PROMISE_EN = re.compile(
    r"(?:\b(?:i|we)(?:'ll| will| am going to|'m going to| shall)\s(?:(?:[a-z]{2,12}ly|also|then|now|just|"
    r"go ahead and|make sure to|be)\s){0,3}|"
    r"\b(?:i am|i'm)\s(?:now\s|just\s|currently\s)?|\blet me (?:go ahead and |just |quickly )?)"
    r"(?:send|submit|fil(?:e|ing)|start the|remind|notify|inform|let (?:you|him|her|them) know|keep you|"
    r"keep an eye|get back|follow|"
    r"check back|check again|book|reserve|schedul|cancel|withdraw|approv|forward|monitor|urg|chas|nudg|updat|"
    r"contact|tell|mail|e-?mail|arrang|creat|tak(?:e|ing) care)"
)
ANNOUNCED = re.compile(
    r"(?<![请由])(?:让我|我)(?:们|先|这就|马上|现在|立刻|再|来|去|就|帮[您你]|给[您你]){0,4}(?:查|看|核实|核对|找)"
    r"(?:一下|一查|一看|查|看|询|找)(?!了)|我(?:们|先|这就|马上|现在|立刻|来|就){1,4}去?办(?!\w)|"
    r"^\W*+正在(?:提交|发送|办理|处理|查询|查找|发起|撤回)(?!\w)|"
    r"\blet me (?:just |quickly |first )?(?:check|look|find|pull up|take a look|see)\b(?! (?:if|whether) you)|"
    r"\b(?:i'll|i will|i'm going to|i am going to) (?:just |quickly |first )?(?:check|look|find out|see to)\b|"
    r"\b(?:i'm|i am) on it\b|^\W*+(?:i'm |i am )?working on (?:it|that|this)\b|"
    r"^\W*+(?:submitting|sending|filing|processing|booking|cancelling|withdrawing|checking) (?:it|that|this|your|the)\b"
)
"""What a model says before a tool call. It is no answer: nothing happens after it."""
NEVER = re.compile(r"n't\b|\bnot\b|\bnever\b|不|无法")
LATER = re.compile(r"提醒|通知|催|跟进|关注|留意|remind|notif|let |keep|get back|follow|check|monitor|urg|chas|nudg")
TELLS_ZH, TELLS_EN = (
    re.compile(r"通知[您你]|告诉[您你]|告知[您你]|反馈"),
    re.compile(r"let you know|keep you|get back to you|tell you|notify you|inform you|update"),
)
WAITS = re.compile(
    r"后|一旦|如果|若|只要|等|一有|有了|有.{0,6}(?:结果|进展|消息)|结果|决定|点|按|确认|需要的话|的话|时|"
    r"\b(?:if|once|when|whenever|after|until|unless|as soon as|press|click|confirm|upon|before|should you|"
    r"decision|outcome|decided|decides|then)\b",
    re.I,
)
CARD = re.compile(
    r"卡片(?:已|就|在(?!您|确|提|按|点)|发到|发给|放在)|(?:已|把)[^,。;!?\n没未不卡]{0,16}+卡片|"
    r"(?:请|可以|直接)?(?:您)?(?:在|点击?|按下?|点一下)(?:一下)?(?:上面|下面|下方|上方|刚才|刚刚|这张|"
    r"弹出)[^,。;!?\n]{0,12}(?:卡片|按钮|确认|发送|同意)|"
    r"请(?:您)?(?:在)?卡片|请(?:您)?(?:点击?|按下?)(?:一下)?[^,。;!?\n]{0,6}(?:确认|发送|同意)|"
    r"\b(?:the|a|your|this|that|new|another) (?:confirmation |preview |approval |new )?card (?:is|has|was|above|"
    r"below|should be|now|waits|is waiting)\b|"
    r"(?<!can )(?<!to )\b(?:press|click|hit|tap|use) (?:the |on )?[\"“'‘]?(?:confirm|send|approve)\b|\b(?:on|"
    r"in) the card (?:above|"
    r"below)\b|"
    r"\b(?:put up|brought|posted|prepared|created|sent|opened) (?:you )?(?:a|the|another|your) (?:confirmation |"
    r"preview |approval |new )?card\b",
    re.I,
)
TASK = re.compile(r"\btask|waits_for|waiting|待办|等待", re.I)
NO_CARD = re.compile(
    r"没有|没|取消|收回|撤|过期|失效|cancel|taken back|withdrawn|expired|不会|还未|尚未|会(?:先)?(?:有|出现|弹出)|"
    r"\b(?:no|not|never|will|would|would be|gets?)\b|n't\b",
    re.I,
)
ORDER = re.compile(
    r"让[^,。;!?\n]{1,8}[审批]|(?:说|写|打|弄)错了|\bmake it\b|\binstead\b|"
    r"(?:再|帮我|麻烦)[^,。;!?\n]{0,6}\b(?:mail|e-?mail|send|book|cancel)\b|"
    r"(?:帮|请你|麻烦|给|替)[^,。;!?\n]{0,12}(?:提交|发|申请|请|催|提醒|撤|取消|批|订|报|通知|改|转|约)|"
    r"我(?:想|要|得)|(?<!申)请[^,。;!?\n]{0,8}[假天]|报销[^,。;!?\n]{0,8}[0-9]|改成|改到|"
    r"\b(?:i need|i want|i'd like|take|please (?!check|tell|show|see))|"
    r"^[^\w\n]*+(?:(?:再)?(?:催|批准|同意|驳回|撤回|取消|通知|提醒|订|预订|提交)|"
    r"(?:submit|send|mail|e-?mail|book|remind|cancel|withdraw|approve|reject|file|expense|request|apply|notify|urge|"
    r"nudge|tell|move|change|ask|let)\b)",
    re.I | re.M,
)
ONLY_ASKS = re.compile(
    r"了吗|了没|了么|没有[?？]?\s*$|是否|是不是|怎么样|如何|到哪|进度|状态|\b(?:did|has|have you|have i|was|were|"
    r"is it|status|how is|what happened|what about)\b",
    re.I,
)
WAITING = re.compile(r"waiting|waits_for|等待|在等|revoking|started|发起", re.I)
RECIPIENT = re.compile(
    r"(?:给|向|通知|告知|告诉|转告|知会|联系|催(?:办|促)?(?:了|过)?|提醒(?:了|过)?|抄送|转交|"
    r"\b(?:to|reminded|notified|informed|e-?mailed|mailed|urged|nudged|contacted|told|alerted|messaged|chased|"
    r"copied)\s)"
)
ALL_DONE = re.compile(
    r"(?:都|已经?|全部|帮您|为您)[^,。;!?\n没未不]{0,8}(?:办好|搞定|办妥|处理好|处理完|弄好)|(?:办好|搞定|办妥|"
    r"弄好|处理好)了|"
    r"已经?(?:为|帮|替|给)[您你](?:处理|办理|办)(?!\w)|^\W*+done\W*+$|"
    r"\b(?:all done|all set|taken care of|it's done|it is done|that's done|everything is done)\b",
    re.I,
)
