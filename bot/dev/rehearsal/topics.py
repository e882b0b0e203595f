"""Finds what a message is about: the words of each topic, the parts of a message, and what goes on with what."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from bot.dev.rehearsal import days, reading, words
from bot.dev.rehearsal.scene import PersonTurn
from bot.dev.rehearsal.words import compile_alternatives

END = compile_alternatives(r"^\W{0,3}[哎唉哦嗯]?(?:算了|不用了|取消|没事了?|不请了|不报了|不发了|不办了|(?:先)?(?:不"
    r"|别).{1,4}了|不需要了|不要了|当我没说|(?:please |just )?(?:never ?mind|nvm|forget (?:it|that|about it"
    r"|(?:about )?the whole.{0,20})|scratch that|(?:do not|don'?t|dont) (?:send|submit|file|book) (?:it|that)|stop"
    r"|drop it|leave it|no need|not needed|cancel(?: it| that| this)?))(?:吧|了|[，,。.!！~\s]|please|thanks?"
    r"|thank you|谢谢|anymore|any ?more){0,6}$|^.{0,12}(?:不想|不打算|不用|不)(?:再)?(?:请假?|休假?|报销?|发邮件|发"
    r"|办)了|\b(?:don't|do not|no longer)\s(?:want|need)\b.{0,30}\b(?:leave|off|vacation|expense|claim|mail|it|that"
    r"|anymore|any more)\b")  # fmt: skip
"""Pattern of words that end whatever is under way."""
END_FIRST = compile_alternatives(r"^\W{0,3}(?:eh|oh|ok|actually|哎|唉)?[，, ]{0,2}(?:(?:算了){1,2}|不用了|没事了"
    r"|(?:先)?(?:不|别).{1,4}了|(?:never ?mind|nvm|forget (?:it|that|(?:about )?the whole \w{1,12}(?: thing)?)|stop"
    r"|cancel that|scratch that|(?:do not|don'?t) send (?:it|that)))(?:[，,。.!！;；\s]+(?=.)|$)")  # fmt: skip
TOPICS = {
    "end_absence": compile_alternatives(r"(?:取消|结束|撤销).{0,4}(?:委托|代理)|^我(?:已经)?回来了|^\s*i(?:'m"
        r"| am) back\b|\bend (?:my|the) (?:absence|delegation|stand-in)\b"),
    "mail": compile_alternatives(r"[邮油]件|封信|^(?:帮我|请|麻烦|再)?(?:[跟和].{1,8}[说讲]|告诉|通知)|\be-?mails?\b"
        r"|^\W{0,3}(?:please |can (?:you|u) |could you )*mail\b|(?-i:\bmail [A-Z])|\b(?:send|write|drop"
        r"|shoot)\b.{0,20}\b(?:mail|note|line)\b|^\W{0,3}(?:please |can you |could you )*(?:(?:write|tell"
        r"|inform)\b.{1,40}?\bthat\b|let .{1,30} know\b)"),
    "absences": compile_alternatives(r"我的(?:委托|代理人?)|谁(?:在)?[代替]我|\bmy (?:absences?|deput(?:y"
        r"|ies))\b(?! is)|\bwho(?:'s| is)? (?:stands in|standing in|covers for me)\b"),
    "absence": compile_alternatives(r"[代替帮]我(?:审批|处理|批(?!准)|审|决定)|委托|代理|我.{0,20}不在"
        r"|我.{0,20}出差.{0,9}[，,]|\bstand(?:s|ing)? in\b|\bstand-in\b|\bdeput(?:y|ise|ize)\b|\bdelegate\b"
        r"|\bout of (?:the )?office\b|\bi(?:'?m| am| will be|'ll be) away\b|\bcovers? my (?:approvals|tasks)\b"
        r"|\bcover(?:s|ing)? for me\b|\bfills? in for me\b|\b(?:approvals|tasks) to\b|\b(?:handle|take over"
        r"|take care of|look after|do) my (?:approvals|tasks)\b"),
    "balance": compile_alternatives(r"(?:还剩|还有|剩).{0,6}(?:几|多少).{0,2}天|假.{0,6}(?:余额|还剩|剩|还有)"
        r"|剩余.{0,4}假|还有.{0,4}假(?:期)?.{0,3}(?:吗|没|么|[?？])|余额|假.{0,4}还能[休请]|(?:几"
        r"|多少)天.{0,3}假.{0,4}(?:可以|能|没)[休请用]|假.{0,6}(?:用|休)了(?:几|多少)|假.{0,3}(?:够不够|够吗)"
        r"|够不?够?.{0,3}[休请].{0,6}(?:的|吗|[?？])|\b(?:left|remaining)\b.{0,16}\b(?:leave|vacation|holidays?|pto"
        r"|days)\b|\bbalance\b|\bhow (?:many|much)\b.{0,50}\b(?:left|remaining)\b|\bstill have (?:any "
        r"|some )?(?:leave|vacation|holiday|pto|days off)|\bhow (?:many|much)\b.{0,16}\b(?:leave|vacation|holidays?"
        r"|pto|days off)\b.{0,12}\b(?:do i|have i|i|can i)\b.{0,9}\b(?:have|got|take)\b(?! to)|\b(?:enough|any|have"
        r"|got)\b.{0,20}\b(?:leave|vacation|holiday|pto)(?: days?)? (?:left|remaining)\b|\b(?:leave|vacation"
        r"|pto)\b.{0,12}\b(?:left|remaining)\b|\bhow much (?:leave|vacation|pto)\b|\benough (?:leave|vacation|pto"
        r"|days)\b|\bdays? (?:remaining|left)\b"),
    "holidays": compile_alternatives(r"(?:下一?个|最近的?)(?:法定)?(?:节假日|假期|节日)|什么时候放假"
        r"|\bnext (?:public |bank )?holidays?\b"),
    "on_card": compile_alternatives(r"转交|转给|转审|转办|加签|留言|评论|抄送|重新提交|(?:都|全部?|一起"
        r"|批量)(?:给我)?(?:同意|批准?|通过|驳回|审批|处理|拒绝)(?!人)|^\s*(?:please\s+)?(?:transfer|hand|pass"
        r"|reassign|cc)\b.{0,40}\b(?:to|on)\b|\badd[- ]sign\b|\bco-?sign\b|\bcomment on\b|\bre-?submit\b"
        r"|\b(?:approve|reject|decide(?: on)?|sign(?: off)?)\b(?:\s(?:of|on))?\s(?:the\s)?(?:everything|all|every"
        r"|each|the rest)\b"),
    "urge": compile_alternatives(r"催|提醒.{0,10}(?:批|审|处理)|还没[批审].{0,6}(?:提醒|问)|\burge\b|\bhurry\b"
        r"|\bnudge\b|\bchase\b|\bping\b|\bremind\b.{1,40}\b(?:approve|about my|decide|leave|request)\b"),
    "withdraw": compile_alternatives(r"撤回|撤销|撤了|撤掉|收回来|取消.{0,8}(?:申请|请假|报销|的?假)|假不请了"
        r"|\bwithdraw\b|\bretract\b|\bpull (?:back|my)\b|\btake\b.{0,24}\bback\b|\bcancel\b.{0,16}\b(?:leave|request"
        r"|vacation|expense|claim|application|[LE]-\d)"),
    "picture": compile_alternatives(r"流程图|看.{0,12}(?:请假|报销)?流程$|\bdiagram\b|\b(?:show|see"
        r"|draw)\b.{0,24}\bprocess\b|\bpicture of\b"),
    "status": compile_alternatives(
        rf"{words.REQUEST_ID.pattern}.{{0,12}}(?:进度|状态|到哪|怎么样|什么情况|批了吗)",
        r"(?:进度|状态|到哪).{0,12}[A-Z]-?\d{3}|\b(?:status|progress|where|how)\b.{0,16}[A-Z]-?\d{3}",
    ),
    "todo": compile_alternatives(r"待办|待审批|[要等待]着?我(?:来)?(?:审批|批|审|处理|同意)|要(?:审批|批|处理)的"
        r"|[要等]批的|卡(?:在)?我[这那]|我[这那]边?.{0,4}(?:积|压|堆|有).{0,6}[单申]|全.{0,2}过了"
        r"|让[他她].{0,2}[休去请]|还有.{0,10}(?:审批|任务)|\b(?:waiting|pending|open|outstanding|left|approvals?"
        r"|requests?|tasks)\b.{0,12}\b(?:for|on) me\b|\bmy queue\b|\ball of them\b|\blet (?:him|her|them) (?:go|have"
        r"|take|off)\b|\breq\w{1,8} from (?:ppl|people|others|my team)\b|\b(?:anything|something|what|things?"
        r"|requests?)\b.{0,24}\b(?:i (?:need|have|should)(?: to)?|to) (?:approve|decide|sign)\b|\bon my (?:plate"
        r"|desk)\b|\bneeds? my (?:approval|decision)\b|\bto-?dos?\b|\b(?:my|open) tasks\b|^\s*tasks\W*$"
        r"|['’]s (?:open )?tasks\b|\btasks (?:of|for) \w"),
    "mine": compile_alternatives(r"我的.{0,6}申请|申请.{0,4}(?:进度|状态)|在谁(?:那|手)|谁.{0,3}(?:在|来)?(?:审|批"
        r"|处理).{0,4}我的|批.{0,6}(?:假|申请|单).{0,4}[吗没么]|(?:申请|单子?|假|报销|审批|流程).{0,12}(?:到哪|到谁"
        r"|哪一步|卡在|批了(?!吧)|批下来|批没|批了没|通过了|有消息|进展|怎么样了|什么情况)|(?:给我|被"
        r"|把我).{0,6}(?:驳回|拒)|我.{0,4}提过|申请.{0,4}列|\b(?:i|i'?ve|have i) (?:filed|submitted|requested"
        r"|put in)\b(?=\W*$)|\bsa(?:y|id) no to my\b|\b(?:declined|turned down|rejected) my\b"
        r"|\bmy requests?\b(?! about)|\bstatus of my\b|\bwho(?:'s| is) it (?:waiting for|with)\b|\bwho(?:'s got| has"
        r"| is on) it\b|\b(?:where|who(?:'s| has| is)|what happened)\b.{0,24}\b(?:my|the)\b.{0,16}\b(?:request|leave"
        r"|expense|claim|application|vacation)\b|\b(?:news|update|progress|status|word)\b.{0,12}\b(?:on|of|about"
        r"|with|for)\b.{0,16}\b(?:request|leave|expense|claim|application|vacation)\b|^\W*(?:has|is|was|did"
        r"|have)\b.{0,36}\b(?:approved?|signed|decided|through|gone|go thr(?:u|ough)|looked at)\b"),
    "decide": compile_alternatives(r"批准|同意|驳回|拒绝|退回|审批(?!人)[一下吧]|处理 ?[A-Z]-|[批准]了吧|^批了?吧?$"
        r"|通过吧|\b(?:approve|reject)\b|^decide [A-Z]-|\bsend\b.{0,20}\bback\b|\breturn [a-z]-?\d"),
    "working_days": compile_alternatives(r"(?:几|多少)个?工作日|工作日.{0,4}(?:几|多少)|\bhow many (?:working"
        r"|business|work) ?days\b|^\W*(?:working|business|work) ?days\b(?!.{0,4}\boff\b)"),
    "calculate": re.compile(
        rf"^(?=.*(?:是多少|等于|得多少|[=＝]|算|\b(?:calculate|compute|how much|what)\b)).*{words.OPERATOR}"
        rf"|^(?=.*[+*×÷])(?=.*{words.OPERATOR}){words.SUM.pattern}\W*$", re.S | re.I,
    ),
    "how": compile_alternatives(r"(?:怎么|如何|怎样)(?:才能)?.{0,4}(?:请|休|报|办|提|申请|发|用)|(?:请假"
        r"|报销).{0,4}(?:怎么|如何)(?:弄|办|搞|操作|申请)|^\W*(?:how (?:do|can|should|would|to)\b(?!.{0,20}\bmany\b)"
        r"|what do i need to).{0,40}\b(?:leave|expenses?|vacation|off|reimburse\w{0,8}|mail|request|claim|approve)\b"),
    "handbook": re.compile(
        r"^(?!.*[A-Z]-?\d{3})(?!.*(?:报销|请)\s*\d)(?=.*(?:[?？]|吗|几|多少|多久|什么|怎么|谁|哪|能不能|可不可以"
        r"|^.{0,10}(?:标准|规定|制度|手册|期限|上限|额度|汇率|补贴|餐补)$|^(?:and\s+)?(?:how|what|which|when|who|can"
        r"|may|do|does|is|are)\b"
        r"|^.{0,24}\b(?:limits?|rules|polic(?:y|ies)|deadline|allowance)$)).*(?:结转|标准|规定|制度|手册|病假条|证明"
        r"|发票|期限|截止|限额"
        r"|上限|额度|汇率|补贴|餐补|提前(?:几|多少|多久)|谁来?审?批|年假.{0,6}(?:几|多少)天|(?:几|多少)天年假"
        r"|报销.{0,8}(?:多久|什么时候|最晚|到账)"
        r"|\b(?:carry|carried)[- ]?over\b|\bhandbook\b|\bpolic(?:y|ies)\b|\bnotice\b|\ballowance\b|\breceipts?\b"
        r"|\b(?:sick|doctor'?s) note\b"
        r"|\bdeadline\b|\blimits?\b|\brules\b|\bexchange rate\b|\bbusiness class\b)", re.S | re.I,
    ),
    "expense": compile_alternatives(
        *words.EXPENSE_WORDS, r"垫付|垫了|垫的钱|咋报|发票|收据|票据|\b(?:refund|receipts?|money back"
            r"|out of (?:my )?pocket|paid for)\b"
    ),
    "leave": compile_alternatives(*words.OFF_WORDS, "请假|休假"),
    "occasion": compile_alternatives(
        "来不了|不来上班|去不了公司|上不了班|看病|看牙|看医生|住院|手术|婚礼|结婚|产检"
            "|奔丧|"
        r"\b(?:can'?t (?:come|make it) (?:in|to work)|won'?t be (?:in|coming)|not (?:coming|be) in"
        r"|stay(?:ing)? (?:at )?home"
        r"|annual|leav|(?:off|out) (?:work|sick)|get(?:ting)? (?:married|hitched)|day off|paternity|maternity"
        r"|bereavement"
        r"|honeymoon|holidays?|wedding|dentist|doctor'?s?|surgery|hospital)\b",
        words.SICK.pattern, words.LOSS.pattern,
    ),
    "processes": compile_alternatives(r"有哪些流程|什么流程|流程列表|\bprocesses\b|list_processes"),
    "thanks": compile_alternatives(r"^\W*(?:(?:great|ok|okay|perfect|cool|awesome|super|many)[\s,!.]*)?(?:thank(?:s"
        r"| you)|thx|cheers|ty\b).{0,40}$|^.{0,6}(?:谢谢|谢了|多谢|感谢|谢啦|辛苦).{0,12}$|^\W*(?:great|perfect|cool"
        r"|awesome|well done|good job|太好了|好的|收到|👍)\W*$"),
    "help": compile_alternatives(r"^\s*(?:你好|您好|嗨|哈喽|早上好|下午好|晚上好|在吗|hi|hello|hey|good (?:morning"
        r"|afternoon|evening))\b|^\s*(?:你好|您好|在吗)|帮助|^早[呀啊上安]|^\W*mornin|你能做什么|会做什么|你是谁"
        r"|能干(?:什么|嘛)|\bhelp\b|\bwhat can you do\b|\bwho are you\b"),
}  # fmt: skip
"""Topic → pattern of its words. The first pattern that matches counts. An occasion is one for a leave."""
OTHERS = compile_alternatives(
    r"有没有(?:别的)?人|有谁|谁.{0,8}(?:请假|休假|休息|不在)",
    r"^\W*(?:who|is (?:anyone|anybody|somebody|someone))\b.{0,20}\b(?:on leave|off|away|on vacation)\b",
    rf"^(?!.*我).{{0,6}}?(?:(?:[{words.SURNAMES}][\u4e00-\u9fff]{{1,2}}?|[小老][{words.SURNAMES}]|同事|他|她)(?=要|想"
    rf"|需要|请|休|明|后天|今|下|从|现在|在|是|也|病))",
    rf"^(?!.*我.{{0,9}}[还剩]).{{0,4}}(?:[{words.SURNAMES}][\u4e00-\u9fff]{{1,2}}?)(?=还有|还剩|剩)",
    r"\b(?:did|does|has) (?!i\b|my\b|it\b|the\b)[a-z]{2,12}(?: [a-z]{2,12})? (?:take|taken|have|use|used)\b",
    r"(?:帮|替|给|为)(?![我你您忙])[\u4e00-\u9fff]{1,3}?(?:请|休|报销)",
    r"^(?!.*\b(?:i|i'd|i'm|i'll|i've|me|my|we|our)\b)\W*(?:(?:is|does|will"
    r"|has)\s)?[a-z][\w'-]{0,20}(?:\s[a-z][\w'-]{0,20})?\s"
    r"(?:needs|wants|would like|asked for|is (?:on|off|sick|away|ill|out)|on leave|takes|has to take|will be (?:on|off"
    r"|away))\b",
    r"\b(?:leave|days? off|vacation|off)\b.{0,24}\bfor (?:my (?:colleague|friend|wife|husband|team)|him|her|them"
    r"|(?-i:[A-Z][a-z]+ [A-Z]))",
)
"""Pattern of a request for somebody else, or of a question about others."""
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
        "how",
        "thanks",
        "help",
        "others",
    ]
)
"""Topics that change nothing."""
TALK = frozenset({"thanks", "help", ""})
"""Topics that may open or close a message about something else."""
FREE = frozenset({"mail", "decide", "absence", "urge", "on_card"})
"""Topics whose words may be about anything."""
STRONG = LOOKUPS - TALK - {"how", "others", "processes"} | {"mail", "expense", "leave", "withdraw", "urge"}
"""Topics that are a matter of their own behind *and*."""
APART = frozenset({"leave", "expense", "mail", "balance", "todo", "absence", "mine"})
"""Topics that are each a matter of their own between commas too."""
REQUESTS = frozenset({"leave", "expense"})
_JOINING = (
    r"(?:\band\s|\balso\b|\bthen\s|\bbesides\b|\bby the way\b|\bbtw\b|\bplus\b"
    r"|另外|顺便|还有(?!.{0,3}[几多年假])|然后|对了|再(?=[给帮跟把替])|以及|同时)"
)
PIECE_END = re.compile(
    rf"(?P<joint>(?<=[\w\s,;.!?，。；！？]){_JOINING})|(?<=[.!?])\s+|(?<=[。！？!?])(?=[^。！？!?])|\n+"
    rf"|(?<!\d)[,，;；](?=.)",
    re.I,
)
CONNECTED_FIRST = re.compile(rf"^[\s,;.，。；]{{0,9}}{_JOINING}[\s,，:：]{{0,9}}(?:also\b\s?)?", re.I)
"""Pattern of words before another matter in the same message."""
ASKED_FOR = compile_alternatives(r"帮|给我|替我|订|买|查|看[一下看]|请(?!假)|能不能|可以|注销|删|修改|创建|打开|关闭"
    r"|安排|预约|打印|翻译|设置|\b(?:can|could|would|please|book|order|find|get me|buy|show|tell|send|e?mail|call"
    r"|remind|remove|delete|change|make it|create|open|close|schedule|translate|print|set up|cancel)\b")  # fmt: skip
"""Pattern of a request of any kind."""
ASKING = compile_alternatives(r"^\W{0,9}(?:has|have|had|did|does|is|are|was|were|which|who|whose|where|when|what|why"
    r"|how|any)\b|(?:吗|没有|没|么|呢)[?？。\s]{0,9}$|谁|哪|什么时候|为什么")  # fmt: skip
OF_MINE = compile_alternatives(r"我的?(?:请|.?假|报销)|申请|单子?|\b(?:request|claim|application)\b"
    r"|\bmy (?:\w{1,12} )?(?:leave|vacation|pto|expenses?)\b")  # fmt: skip
OFF = compile_alternatives(r"\boff\b|假")
BRIEF = 60
"""Most characters of a message that only goes on with the matter before it."""


@dataclass(frozen=True, slots=True)
class Matter:
    """A wish of the person: its topic, the words that began it, and those that went on with it."""

    topic: str
    texts: tuple[str, ...]
    is_late: bool = False
    """Whether the newest words came after its request had started."""

    @property
    def full_text(self) -> str:
        return "\n".join(self.texts)


def find_topic(text: str) -> str:
    """Find the topic of one part of a message. Naming an approver does not make a request a decision."""
    plain = reading.remove_approver(text)
    if END.search(text) and not TOPICS["withdraw"].search(text):
        return "end"
    topic = reading.classify_text(plain, TOPICS).replace("occasion", "leave")
    if not topic and plain != text:
        topic = reading.classify_text(text, TOPICS).replace("decide", "").replace("occasion", "leave")
    is_spent = reading.classify_text(text, words.CATEGORIES) and words.BARE_AMOUNT.search(days.remove_days(plain))
    if not topic and (reading.list_amounts(plain) or is_spent):
        return "expense"
    if not topic and days.has_day(plain) and OFF.search(plain):
        return "leave"
    if topic in REQUESTS and ASKING.search(plain) and OF_MINE.search(plain) and not has_fact(plain):
        return "mine"
    if topic == "decide" and ASKING.search(plain) and not text.startswith(("can", "could")):
        return "todo"
    return "others" if topic in ("leave", "expense", "absence", "balance") and OTHERS.search(plain) else topic


def has_fact(text: str) -> bool:
    return bool(days.has_day(text) or days.parse_length(text) or reading.list_amounts(text))


def split_message(text: str) -> list[tuple[str, str]]:
    """Split a message where another wish begins; return each part with its topic."""
    if END.search(text) and find_topic(text) == "end":
        return [("end", text)]
    if first := END_FIRST.match(text):
        rest = split_message(text[first.end() :])
        return [("end", text)] if all(topic in (*TALK, "end") for topic, _ in rest) else [("end", first[0]), *rest]
    parts = list[tuple[str, str]]()
    start, joint = 0, ""
    for found in [*PIECE_END.finditer(text), None]:
        end = len(text) if found is None else found.start() if found["joint"] else found.end()
        piece = text[start:end]
        if piece.strip(" ,，。.;；\n"):
            add_piece(parts, piece, joint)
            joint = ""
        if found is not None:
            joint = "and" if found["joint"] or joint == "and" else "," if found[0].strip(" \n") else ""
        start = end
    if len(parts) < 2:
        return [(find_topic(text), text)]
    return [(topic, CONNECTED_FIRST.sub("", part).strip(" \n,，;；")) for topic, part in parts]


def add_piece(parts: list[tuple[str, str]], piece: str, joint: str) -> None:
    """Add a piece to the part before it, or begin another part with it."""
    topic = find_topic(CONNECTED_FIRST.sub("", piece))
    before, said = parts[-1] if parts else ("", "")
    is_order = joint == "and" and not topic and ASKED_FOR.search(CONNECTED_FIRST.sub("", piece)) is not None
    if not parts or before == "end":
        parts.append((topic, piece))
    elif before in TALK and not (is_order and before == ""):
        parts[-1] = (topic or before, said + piece)
    elif (
        topic == before
        or (topic in TALK and not is_order)
        or (topic == "decide" and before in REQUESTS)
        or (before in FREE and not (joint == "and" and topic in STRONG))
        or (before in LOOKUPS and topic in REQUESTS and not has_fact(piece) and not is_order)
        or (before not in FREE and topic not in (STRONG if joint != "," else APART) and not is_order)
    ):
        parts[-1] = (before, said + piece)
    else:
        parts.append((topic, piece))


def read_matters(turns: Sequence[PersonTurn]) -> tuple[Matter, ...]:
    """Read what the last message asks for, lookups first. Words without a topic of their own go on with the wish before
    them, if they have something to add to it; no other words do. Nobody goes on with somebody else's wish."""
    matters, wish = tuple[Matter, ...](), Matter("", ("",))
    for turn in turns:
        if turn.name != turns[-1].name:
            continue
        parts = split_message(turn.text)
        if len(parts) == 1 and goes_on(wish, *parts[0]):
            wish = Matter(wish.topic, (*wish.texts, turn.text), turn.is_after_start)
            matters = (wish,)
            continue
        found = [Matter(topic, (text,)) for topic, text in parts]
        for n, matter in enumerate(found[1:], 1):  # who stands in meanwhile: the days are those of the leave
            if matter.topic == "absence" and not has_fact(matter.full_text):
                found[n] = Matter("absence", (found[n - 1].full_text, *matter.texts))
        matters = tuple(sorted(found, key=lambda one: one.topic not in LOOKUPS))
        wish = matters[-1] if matters[-1].topic not in LOOKUPS | {""} else wish
    return matters or (Matter("", ("",)),)


def goes_on(last: Matter, topic: str, text: str) -> bool:
    if last.topic not in ("leave", "expense", "mail", "absence") or len(text) > BRIEF:
        return False
    if last.topic == "mail":
        return topic in ("", "mail") and words.SUBJECT.search(text) is not None
    marked = words.CORRECTION.search(text) is not None
    is_name = words.BARE_NAME.fullmatch(words.ASIDE.split(text.strip(), maxsplit=1)[0]) is not None
    names = is_name or reading.remove_approver(text) != text
    kinds = words.LEAVE_NAMES if last.topic == "leave" else words.CATEGORIES
    is_bare = topic == last.topic and not TOPICS[topic].search(text)
    if (
        topic in ("", "help")
        or is_bare
        or (is_name and topic == last.topic)
        or (marked and topic in (last.topic, "end", "decide", "leave"))
    ):
        return bool(
            has_fact(text)
            or names
            or (marked and (reading.classify_text(text, kinds) or words.BARE_AMOUNT.search(text)))
        )
    return False
