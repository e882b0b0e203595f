"""Classifies a message: the words of each intent, and the parts of a message with several intents."""

from __future__ import annotations

import re

from bot.dev.rehearsal import days, reading, several, words
from bot.dev.rehearsal.words import compile_alternatives

INTENTS = {
    "drop": compile_alternatives(
        r"^\s*(?:算了|不用了|取消|never ?mind|forget it|cancel(?: it| that| this)?)(?:吧"
        r"|了)?(?:[，,。.!！].{0,40})?\s*$"
    ),
    "mail": compile_alternatives(
        "发.{0,6}(?:邮件|封信)|写.{0,4}邮件|邮件给|^(?:帮我|请|麻烦)?(?:[跟和].{1,8}说|告诉|通知)",
        r"^\s*(?:please\s+|can you\s+|could you\s+)?(?:please\s+)?e?-?mail\b",
        r"\b(?:send|write|drop)\b.{0,20}\b(?:e?-?mail|note|line)\b",
        r"^\s*(?:please\s+|can you\s+|could you\s+)?(?:please\s+)?(?:(?:write|tell|inform)\b.{1,40}?\bthat\b"
        r"|let .{1,30} know\b)",
    ),
    "end_absence": compile_alternatives(
        "(?:取消|结束|撤销).{0,4}(?:委托|代理)", "^我(?:已经)?回来了",
        r"^\s*i(?:'m| am) back\b|\bend (?:my|the) (?:absence|delegation)\b",
    ),
    "balance": compile_alternatives(
        "(?:还剩|还有|剩).{0,6}(?:几|多少).{0,2}天|假.{0,6}(?:余额|还剩|剩|还有)|剩余.{0,4}假|还有.{0,4}假(?:期)?.{0,3}(?:吗|没|么|[?？])|余额",
        r"\b(?:left|remaining)\b.{0,16}\b(?:leave|vacation|holidays?|pto|days)\b|假.{0,4}还能[休请]",
        r"\bbalance\b|\bhow (?:many|much)\b.{0,50}\b(?:left|remaining)\b",
        r"\bhow (?:many|much)\b.{0,16}\b(?:leave|vacation|holidays?|pto|days off)\b.{0,12}\b(?:do i|have i"
        r"|i) (?:still )?(?:have|got)\b(?! to)",
        r"\b(?:any|have|got)\b.{0,20}\b(?:leave|vacation|holiday|pto)(?: days?)? (?:left|remaining)\b",
        r"\bstill have (?:any |some )?(?:leave|vacation|holiday|pto|days off)",
    ),
    "holidays": compile_alternatives(
        "(?:下一?个|最近的?)(?:法定)?(?:节假日|假期|节日)|什么时候放假", r"\bnext (?:public )?holidays?\b"
    ),
    "absences": compile_alternatives(
        "我的(?:委托|代理人?)|谁(?:在)?[代替]我", r"\bmy (?:absences?|deput(?:y|ies))\b|\bwho stands in\b"
    ),
    "absence": compile_alternatives(
        "[代替帮]我(?:审批|处理|批(?!准)|审|决定)|委托|代理人|我.{0,20}不在|我.{0,20}出差.{0,6}[，,]",
        r"\bstand(?:s|ing)? in\b|\bdeputy\b|\bdelegate\b|\bout of (?:the )?office\b",
        r"\bi(?:'m| am| will be|'ll be) away\b|\bcovers? for me\b|\bfills? in for me\b",
    ),
    "transfer": compile_alternatives(
        "转交|转给|转审|转办", r"^\s*(?:please\s+)?(?:transfer|hand|pass|reassign)\b.{0,40}\bto\b"
    ),
    "add_sign": compile_alternatives(
        "加签", r"\badd[- ]sign\b|\bco-?sign\b",
        r"\b(?:ask|add|have)(?:\s++(?!(?:ask|add|have)\b)\S++){1,12}?\s++(?:before|after|beside|alongside) me\b",
    ),
    "urge": compile_alternatives(
        "催|提醒.{0,10}(?:批|审|处理)|还没[批审].{0,6}(?:提醒|问)",
        r"\burge\b|\bhurry\b|\bnudge\b|\bchase\b|\bping\b|\bremind\b.{1,40}\b(?:approve|about my|decide"
        r"|leave|request)\b",
    ),
    "comment": compile_alternatives("留言|评论", r"\bcomment on\b|\bleave a (?:comment|note)\b"),
    "cc": compile_alternatives("抄送", r"^\s*(?:please\s+)?cc\b|\bkeep\b.{1,40}\binformed\b"),
    "withdraw": compile_alternatives(
        "撤回|撤销|撤了|取消.{0,8}(?:申请|请假|报销|[年病事]假)|假不请了",
        r"\bwithdraw\b|\btake\b.{0,24}\bback\b|\bcancel\b.{0,12}\b(?:leave|request|vacation|expense"
        r"|claim|application)\b",
    ),
    "not_wanted": compile_alternatives(
        "(?:不想|不要|不打算|先不|不用)(?:再)?(?:请|休|报销|发)",
        r"\b(?:don't|do not|no longer|won't)\s(?:want\s|need\s)?(?:to\s)?(?:take|need|request|go on|claim"
        r"|send|want)?\b.{0,20}"
        r"\b(?:leave|off|vacation|expense|mail)\b",
    ),
    "resubmit": compile_alternatives("重新提交|再提交", r"\bre-?submit\b"),
    "picture": compile_alternatives(
        "流程图|看.{0,12}(?:请假|报销)?流程$", r"\bdiagram\b|\b(?:show|see|draw)\b.{0,24}\bprocess\b|\bpicture of\b"
    ),
    "status": compile_alternatives(
        rf"{words.REQUEST_ID.pattern}.{{0,12}}(?:进度|状态|到哪|怎么样|什么情况|批了吗)",
        r"(?:进度|状态|到哪).{0,12}[A-Z]-?\d{3}",
        r"\b(?:status|progress|where|how)\b.{0,16}[A-Z]-?\d{3}",
    ),
    "several": several.SEVERAL,
    "todo": compile_alternatives("待办|待审批|[要等待]着?我(?:来)?(?:审批|批|审|处理|同意)|要(?:审批|批|处理)的"
    "|[要等]批的",
                   r"\b(?:waiting|pending|open|outstanding|left|approvals?|requests?"
                   r"|tasks)\b.{0,8}\bfor me\b|还有.{0,10}(?:审批|任务)|"
        r"\b(?:anything|something|what|things?)\b.{0,20}\b(?:i (?:need|have) to|to) (?:approve|decide|sign)\b",
                   r"\bon my (?:plate|desk)\b|\bneeds? my (?:approval|decision)\b",
                   r"\bto-?dos?\b|\b(?:my|open) tasks\b|^\s*tasks\W*$",
                   r"['’]s (?:open )?tasks\b|\btasks (?:of|for) \w"),
    "mine": compile_alternatives(
        "我的.{0,6}申请|申请.{0,4}(?:进度|状态)|在谁(?:那|手)|谁.{0,3}(?:在|来)?(?:审|批|处理).{0,4}我的",
        "批.{0,6}(?:假|申请|单).{0,4}[吗没么]",
        "(?:申请|单子?|假|报销|审批|流程).{0,12}(?:到哪|到谁|哪一步|卡在|批了(?!吧)|批下来|批没|通过了|有消息|进展|怎么样了|什么情况)",
        r"\bmy requests?\b|\bstatus of my\b|\bwho(?:'s| is) it (?:waiting for|with)\b",
        r"\b(?:where|who(?:'s| has| is)|what happened)\b.{0,24}\b(?:my|the)\b.{0,16}\b(?:request|leave"
        r"|expense|claim|application|vacation)\b",
        r"\bwho(?:'s got| has| is on) it\b",
        r"\b(?:news|update|progress|status|word)\b.{0,12}\b(?:on|of|about|with|for)\b.{0,16}\b(?:request|leave|expense|claim|application|vacation)\b",
        r"^\W*(?:has|is|was|did|have)\b.{0,36}\b(?:approved?|signed|decided|through|gone)\b",
    ),
    "decide": compile_alternatives(
        "批准|同意|驳回|拒绝|退回|审批(?!人)[一下吧]|[批准]了吧|^批了?吧?$|通过吧",
        r"\b(?:approve|reject)\b|\bsend\b.{0,20}\bback\b|\breturn [a-z]-?\d",
    ),
    "working_days": compile_alternatives(
        "(?:几|多少)个?工作日|工作日.{0,4}(?:几|多少)",
        r"\bhow many (?:working|business|work) ?days\b|^\W*(?:working|business|work) ?days\b(?!.{0,4}\boff\b)",
    ),
    "calculate": re.compile(
        rf"^(?=.*(?:是多少|等于|得多少|[=＝]|算|\b(?:calculate|compute|how much|what)\b)).*{words.OPERATOR}"
        rf"|^(?=.*[+*×÷])(?=.*{words.OPERATOR}){words.SUM.pattern}\W*$", re.S | re.I,
    ),
    "manager": compile_alternatives("我的?(?:上级|领导|经理|主管|老板)是谁|谁是我的?(?:上级|领导|经理"
    "|主管)", r"\bwho(?:'s| is) my (?:manager|boss|supervisor|lead|approver)\b"),
    "how": compile_alternatives(
        "(?:怎么|如何|怎样)(?:才能)?.{0,4}(?:请|休|报|办|提|申请|发|用)|(?:请假|报销).{0,4}(?:怎么|如何)(?:弄|办|搞|操作|申请)",
        r"^\W*(?:how (?:do|can|should|would|to)\b(?!.{0,20}\bmany\b)|what do i need to).{0,40}\b(?:leave"
        r"|expenses?|vacation|off|reimburse\w{0,8}|mail|request|claim|approve)\b",
    ),
    "handbook": re.compile(rf"^(?!.*[A-Z]-?\d{{3}})(?!.*(?:报销"
    rf"|请)\s*\d)(?=.*(?:{words.ASKED})).*(?:{words.RULE})", re.S | re.I),
    "expense": compile_alternatives(*words.EXPENSE_WORDS),
    "leave": compile_alternatives(*words.LEAVE_WORDS, words.HALF.pattern, r"\bdays?\b.{0,12}\bfrom\b"),
    "processes": compile_alternatives("有哪些流程|什么流程|流程列表", r"\bprocesses\b|list_processes"),
    "people": compile_alternatives(
        "有哪些(?:人|同事)|通讯录", r"\bwho (?:is|works) here\b|\blist (?:of )?people\b|list_people"
    ),
    "thanks": compile_alternatives(
        r"^\W*(?:(?:great|ok|okay|perfect|cool|awesome|super|many)[\s,!.]*)?(?:thank(?:s| you)|thx|cheers"
        r"|ty\b).{0,40}$",
        "^.{0,6}(?:谢谢|谢了|多谢|感谢|谢啦|辛苦).{0,12}$", r"^\W*(?:great|perfect|cool|awesome|well done|good job"
        r"|太好了"
        r"|好的|收到|👍)\W*$",
    ),
    "dinner": compile_alternatives(
        "晚饭|午饭|吃什么|天气", r"\b(?:dinner|lunch|weather)\b|\bwhat (?:to|should i) eat\b"
    ),
    "help": compile_alternatives(
        r"^\s*(?:你好|您好|嗨|哈喽|早上好|下午好|晚上好|在吗)", "帮助|你能做什么|会做什么|你是谁",
        r"^\s*(?:hi|hello|hey|good (?:morning|afternoon|evening))\b",
        r"\bhelp\b|\bwhat can you do\b|\bwho are you\b",
    ),
}  # fmt: skip
"""Intent → pattern of its words. The first pattern that matches counts."""

LOOKUPS = frozenset(
    [
        "balance",
        "holidays",
        "absences",
        "picture",
        "status",
        "todo",
        "mine",
        "calculate",
        "working_days",
        "handbook",
        "processes",
        "people",
        "manager",
        "how",
        "thanks",
        "dinner",
        "help",
        "others",
    ]
)
"""Intents that change nothing; an open question stays open meanwhile."""
TALK = frozenset({"thanks", "help", "dinner", "unknown"})
"""Intents that may open or close a message about something else."""
_JOINING = (
    r"(?:\band\s|\balso\b|\bthen\s|\bbesides\b|\bby the way\b|\bbtw\b|\bplus\b"
    r"|另外|顺便|还有(?!.{0,3}[几多年假])|然后|对了|再(?=[给帮跟把替])|以及|同时)"
)
CONNECTED = re.compile(rf"(?<=[\w\s,;.!?，。；！？]){_JOINING}", re.I)
"""Pattern of words before another matter in the same message."""
CONNECTED_FIRST = re.compile(rf"^[\s,;.，。；]{{0,9}}{_JOINING}[\s,，:：]{{0,9}}(?:also\b\s?)?", re.I)
SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？!?])(?=.)|\n+")
ASKED_FOR = compile_alternatives(
    "帮|给我|替我|订|买|查|看[一下看]|请(?!假)|能不能|可以|注销|删|修改|创建|打开|关闭|安排|预约|打印|翻译|设置",
    r"\b(?:can|could|would|please|book|order|find|get me|buy|show|tell|send|e?mail|call|remind|remove|delete"
    r"|change|create|open|close|schedule|translate|print|set up|cancel)\b",
)
"""Pattern of a request of any kind."""
_SURNAMES = "张王李赵刘陈杨黄吴徐孙朱胡郭罗郑梁宋唐邓冯韩曹曾彭萧蔡潘田董袁蒋余叶程苏吕魏丁沈姚卢傅钟姜崔谭廖范汪陆"
OTHERS = compile_alternatives(
    r"有没有(?:别的)?人|有谁|谁.{0,8}(?:请假|休假|休息|不在)",
    r"^\W*(?:who|is (?:anyone|anybody|somebody|someone))\b.{0,20}\b(?:on leave|off|away|on vacation)\b",
    rf"^(?!.*我).{{0,6}}?(?:(?:[{_SURNAMES}][\u4e00-\u9fff]{{1,2}}?|[小老][{_SURNAMES}]|同事|他|她)(?=要|想|需要|请|休|明|后天|今|下|从|现在|在|是|也|病))",
    r"(?:帮|替|给|为)(?![我你您忙])[\u4e00-\u9fff]{1,3}?(?:请|休|报销)",
    r"^(?!.*\b(?:i|i'd|i'm|i'll|i've|me|my|we|our)\b)\W*(?:(?:is|does|will|has)\s)?[a-z][\w'-]{0,20}(?:\s[a-z][\w'-]{0,20})?\s"
    r"(?:needs|wants|would like|asked for|is (?:on|off|sick|away|ill|out)|on leave|takes|has to take"
    r"|will be (?:on|off|away))\b",
    r"\b(?:leave|days? off|vacation)\b.{0,24}\bfor (?:my (?:colleague|friend|wife|husband|team)|him|her|them)\b",
)
"""Pattern of a request for somebody else, or of a question about others."""
QUESTIONS = {"leave": "mine", "expense": "mine", "decide": "todo", "several": "todo"}
"""Intent → lookup that answers a question with its words, if the message orders nothing."""
ASKING = compile_alternatives(
    r"^\W{0,9}(?:has|have|had|did|does|do|is|are|was|were|which|who|whose|where|when|what|why|how|any)\b",
    "(?:吗|没有|没|么|呢)[?？。\\s]{0,9}$|谁|哪|什么时候|为什么|几个|多少",
)
PERMISSION = compile_alternatives(r"\b(?:possible|ok|okay|fine|all right)\b", "可以|能[不请休]|行[吗不]|方便")
"""Pattern of a question for permission, which counts as a request."""
OF_MINE = compile_alternatives(
    "我的?(?:请|.?假|报销)|申请|单子?",
    r"\b(?:request|claim|application)\b|\bmy (?:\w{1,12} )?(?:leave|vacation|pto"
    r"|expenses?|time off)\b",
)
OFF = compile_alternatives(r"\boff\b", "假")
IN_ANY_REQUEST = frozenset({"leave", "expense"})


def classify_intent(text: str) -> str:
    """Classify one part of a message. Naming an approver does not turn a request into a decision."""
    plain = reading.remove_approver(text)
    found = reading.classify_text(plain, INTENTS, "unknown")
    if plain != text and found in IN_ANY_REQUEST:
        intent = found
    elif plain != text and found != "mail" and is_bare_leave(plain):  # a mail may tell of a leave
        intent = "leave"
    else:
        intent = reading.classify_text(text, INTENTS, "unknown")
    if intent in QUESTIONS and ASKING.search(plain) and not PERMISSION.search(plain) and not has_own_facts(plain):
        intent = QUESTIONS[intent] if intent in ("decide", "several") or OF_MINE.search(plain) else "unknown"
    if intent in ("unknown", "dinner", "decide") and is_spending(text):
        intent = "expense"
    if intent == "unknown" and is_bare_leave(plain):
        intent = "leave"
    return "others" if intent in ("leave", "expense", "absence", "people") and OTHERS.search(plain) else intent


def has_own_facts(text: str) -> bool:
    return days.has_day(text) or days.parse_length(text) is not None or reading.parse_amount(text) is not None


def is_spending(text: str) -> bool:
    """Return whether a text has an amount, and an approver or a purpose of spending."""
    return reading.parse_amount(text) is not None and (
        reading.remove_approver(text) != text or reading.classify_text(text, words.CATEGORIES, "") != ""
    )


def is_bare_leave(text: str) -> bool:
    """Return whether a text says *off* and a day."""
    return days.has_day(text) and OFF.search(text) is not None


def split_message(text: str) -> list[tuple[str, str]]:
    """Split a message where another matter begins; return each part with its intent."""
    parts = list[tuple[str, str]]()
    for piece, is_connected in list_pieces(text):
        intent = classify_intent(CONNECTED_FIRST.sub("", piece) if is_connected else piece)
        if parts and belongs_to(parts[-1][0], intent, piece, is_connected):
            before, said = parts[-1]
            parts[-1] = (before, said + piece)
        elif parts and parts[-1][0] in TALK and not (is_connected and is_order(*parts[-1])):
            parts[-1] = (intent, parts[-1][1] + piece)
        else:
            parts.append((intent, piece))
    if len(parts) < 2:
        return [(classify_intent(text), text)]
    return [
        (intent, CONNECTED_FIRST.sub("", said).strip() if n else said.strip(" \n,，;；"))
        for n, (intent, said) in enumerate(parts)
    ]


def is_order(intent: str, piece: str) -> bool:
    """Return whether a text asks for something unknown here."""
    return intent == "unknown" and ASKED_FOR.search(piece) is not None


def list_pieces(text: str) -> list[tuple[str, bool]]:
    """List the sentences and the parts behind *and* or *also*, each with whether such a word begins it."""
    pieces = list[tuple[str, bool]]()
    start = 0
    marks = sorted(
        [(m.end(), False) for m in SENTENCE_END.finditer(text)] + [(m.start(), True) for m in CONNECTED.finditer(text)]
    )
    connected = False
    for at, is_connected in marks:
        if at > start:
            pieces.append((text[start:at], connected))
            start = at
            connected = is_connected
        else:
            connected = connected or is_connected
    return [(piece, joined) for piece, joined in [*pieces, (text[start:], connected)] if piece]


def belongs_to(before: str, intent: str, piece: str, is_connected: bool) -> bool:
    """Return whether a piece continues the part before it."""
    if intent == before:
        return True
    if before in TALK:
        return intent in TALK and not (is_connected and ASKED_FOR.search(piece))
    if intent in TALK and before not in ("mail", "comment"):
        return intent != "unknown" or not (is_connected and ASKED_FOR.search(CONNECTED_FIRST.sub("", piece)))
    if intent == "decide" and before in IN_ANY_REQUEST:
        return True
    if before in ("mail", "comment"):
        return not is_connected or intent not in STRONG
    if before in ("decide", "absence", "urge", "transfer"):
        return not is_connected or intent not in STRONG
    return not is_connected and intent not in STRONG


STRONG = LOOKUPS - TALK - {"how", "others", "people", "processes"} | {"mail", "expense", "leave", "withdraw", "urge"}
"""Intents that are a matter of their own behind *and*."""
