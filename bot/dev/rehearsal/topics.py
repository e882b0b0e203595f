"""Finds what a message is about: the words of each topic, the parts of a message, and what goes on with what."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bot.dev.rehearsal import days, words
from bot.dev.rehearsal.scene import PersonTurn
from bot.dev.rehearsal.words import compile_alternatives

_NEVER_MIND = (
    r"(?:(?:算了){1,2}|不用了|没事了?|取消|当我没说|(?:不想|先)?[不别](?:请|休|报|发|办|要|用|去).{0,3}了"
    r"|不需要了)[吧了]?(?=\W|$)|(?:please |just )?(?:never ?mind|nvm|stop|cancel(?: it| that| this)?|drop it|no need"
    r"|not needed|scratch that|forget (?:about )?(?:it|that|the whole \w{1,12}(?: thing)?)"
    r"|(?:do not|don'?t) (?:send|submit|book) (?:it|that))(?: please| thanks| any ?more)?(?=\s*[,.;!]|\s*$)"
)
END = compile_alternatives(
    r"^.{0,12}(?:不想|不打算|不用|不)再?(?:请假?|休假?|报销?|发)了",
    r"\b(?:don't|do not|no longer) (?:want|need)\b.{0,30}\b(?:leave|off|vacation|expense|claim|it|that|any ?more)\b",
    rf"[，,。.!;]\s?(?:{_NEVER_MIND})\W*$",
)
END_FIRST = compile_alternatives(
    rf"^(?:\W{{0,3}}(?:eh|oh|ok|no|actually|[哎唉嗯])?[，, ]{{0,3}}(?:{_NEVER_MIND})[，,。.!！;；~\s]*+)++"
)
"""Patterns of words that end whatever is under way: at the end of a wish, and before other words."""
IS_OFF, IS_MONEY, NOUN, ASKING = (
    r"假|休|天|\b(?:days?|leave|vacation|holidays?|pto|off)\b",
    r"报|垫[付了的]|发票|收据|票据|\b(?:expens\w{1,4}|reimburs\w{1,6}|claim|receipts?|money back|out of my"
    r"|i (?:paid|spent)|paid for)\b",
    r"申请|单|假|报|流程|给我|\b(?:requests?|leave|expense|claim|application|vacation|day off|i'?ve)\b",
    r"[?？吗没么几谁哪]|多少|多久|什么|怎么|能不能|^\W*(?:ha[sd]|have|did|do|does|is|are|was|who|where|when|what|which"
    r"|why|how|any|can|may)\b",
)
TOPICS: dict[str, tuple[str, ...]] = {
    "mail": (
        r"[邮油]件|封信|^(?:帮我|请|麻烦|再)?(?:[跟和].{1,8}[说讲]|告诉|通知)|\be?-?mails?\b"
        r"|^\W{0,3}(?:(?:please|can you|could you) )*(?:write\b.{1,40}?\bthat\b|(?:tell|inform) (?-i:[A-Z])"
        r"|let .{1,30} know\b)",
    ),
    "end_absence": (r"(?:取消|结束).{0,4}(?:委托|代理)|^我(?:已经)?回来了|^\W*i(?:'m| am) back\b|\bend my absence\b",),
    "absences": (r"我的(?:委托|代理)|谁在?[代替]我|\bmy (?:absences?|deput(?:y|ies))\b(?! is)|\bwho stands in\b",),
    "absence": (
        r"[代替]我(?:审|批(?!准)|处理)|委托|代理|我.{0,20}(?:不在|出差.{0,20}[，,])|\b(?:stand(?:s|ing)? in|deputy"
        r"|delegate|out of office|i(?:'?m| am|'ll be) away|cover(?:s|ing)? (?:for me|my)|fills? in for me"
        r"|(?:handle|take over) my (?:approvals|tasks))\b",
    ),
    "working_days": (r"工作日|\b(?:working|business|work) ?days\b(?!.{0,4}\boff\b)", r"几|多少|\bhow many\b"),
    "balance": (
        r"剩|余额|够不?够?|还有.{0,6}[几多]|还有.{0,4}假.{0,3}[吗没?？]|还能[休请]|假.{0,6}[用休]了[几多]"
        r"|\b(?:left|remaining|balance|enough|how (?:many|much)\b.{0,30}\b(?:have|got|take)|how much (?:leave|pto))\b",
        IS_OFF,
    ),
    "holidays": (r"节假日|放假|(?:下一?个|最近的)(?:假期|节日)|\bnext (?:public |bank )?holidays?\b",),
    "urge": (r"催|提醒.{0,10}[批审处]|\b(?:urge|hurry|nudge|chase|remind\b.{1,40}\b(?:approve|my|leave|request))\b",),
    "withdraw": (
        r"撤[回销了掉]|收回来|取消.{0,8}(?:申请|假|报销)|(?:申请|假|报销).{0,4}取消|假不请了"
        r"|\b(?:withdraw|retract|pull (?:back|my)|take\b.{0,24}\bback|cancel\b.{0,16}\b(?:leave|request|vacation"
        r"|expense|claim|[LE]-\d))",
    ),
    "picture": (r"流程图|看.{0,12}流程$|\bdiagram\b|\b(?:show|see|draw)\b.{0,24}\bprocess\b",),
    "status": (words.REQUEST_ID.pattern, r"进度|状态|到哪|怎么样|什么情况|批了吗|\b(?:status|progress|where|how)\b"),
    "handbook": (
        r"结转|标准|规定|制度|手册|病假条|期限|截止|限额|上限|汇率|补贴|谁来?审?批|年假.{0,6}[几多]"
        r"|报销.{0,8}(?:多久|最晚)|\b(?:carr(?:y|ied)[- ]?over|handbook|polic(?:y|ies)|allowance"
        r"|(?:sick|doctor'?s) note|deadline|limits?|rules)\b",
        ASKING + "|^.{0,10}$",
    ),
    "todo": (
        r"待办|待审|[要等让]着?我来?[审批处同]|要[审批处].{0,2}的|卡在?我[这那]|我[这那]边?.{0,4}[积压堆]|没处理的"
        r"|全.{0,2}过了|让[他她].{0,2}[休去请]|[都全](?:给我)?[批同通]|\b(?:(?:waiting|pending|approvals?|requests?"
        r"|tasks)\b.{0,12} (?:for|on) me|my (?:queue|plate|desk|tasks|approval)|to-?dos?"
        r"|(?:open )?tasks(?: (?:of|for) \w|\W*$)|all of them|let (?:him|her|them) (?:go|have|take)"
        r"|req\w{1,8} from (?:ppl|people)|(?:anything|something|what|which|have|need)\b.{0,24}\bto (?:approve|decide"
        r"|sign)|(?:approve|reject|sign) (?:everything|all|every))\b",
    ),
    "mine": (
        r"^.{0,4}我的.{0,6}申请|到[哪谁账]|到了吗|在谁|卡|批了(?!吧)|批[下没]|[没未]批|看了我|通过了|驳回了|拒|进展"
        r"|进度|消息|情况|怎么样|提过|列|\bmy requests?\b|\b(?:where|who|status|progress|news|update|approved|through"
        r"|thru|looked|rejected|sa(?:y|id) no|filed|submitted)\b",
        NOUN,
        r"^(?!.*\b(?:who|how) (?:can|do|should)\b)(?:.*[我谁哪吗没?？]|.*申请|.*\b(?:my|the|it|i'?ve)\b)",
    ),
    "decide": (
        r"批准|同意|驳回|拒绝|退回|审批(?!人)|处理 ?[A-Z]-|[批准]了吧|\b(?:approve|reject)\b|^decide [A-Z]-"
        r"|\bsend\b.{0,20}\bback\b",
    ),
    "calculate": (r"[\d)%]\s*(?:[+*/×÷]|(?<=\s)-(?=\s))\s*[(\d.]", r"多少|等于|[=＝]|算|^[\d\s.()+*/×÷%-]+$|\bwhat\b"),
    "expense": (IS_MONEY,),
    "leave": (
        r"[请休].{0,14}假|[年病事婚产丧]假|调休|[请休歇].{0,3}[天日周](?!报)|休息|半天|来不了|上不了班|住院|结婚|产检"
        r"|\b(?:(?:days?|time) off|leave|vacation|pto|annual|holidays?|paternity|maternity|bereavement"
        r"|getting (?:married|hitched)|(?:morning|afternoon|week) off|(?:take|taking|have|need|want|get|book"
        r"|be)\b.{0,40}\boff|off (?:from|on|until|tomorrow|today|mon|tue|wed|thu|fri|next|dec|\d)"
        r"|can'?t (?:come|make it)|won'?t be (?:in|coming)|stay(?:ing)? home)\b",
    ),
    "sick": (rf"{words.LEAVE_HINTS['sick'].pattern}|{words.LEAVE_HINTS['bereavement'].pattern}",),
    "processes": (r"有哪些流程|什么流程|\bprocesses\b",),
    "thanks": (
        r"^\W*(?:(?:great|ok|perfect|cool)[\s,!.]*)?(?:thank(?:s| you)|thx|cheers)\b.{0,40}$"
        r"|^.{0,6}(?:谢|感谢|辛苦).{0,12}$|^\W*(?:great|perfect|cool|well done|太好了|好的|收到|👍)\W*$",
    ),
    "help": (
        r"^\s*(?:你好|您好|嗨|早|在吗|(?:hi|hello|hey|good morning|mornin)\b)|帮助|你能做什么|你是谁|\bhelp\b"
        r"|\bwhat can you do\b",
    ),
}  # fmt: skip
"""Topic → patterns that are all found in its sentences. The first such topic counts."""
RULES = [
    (topic.replace("sick", "leave"), [re.compile(one, re.I | re.S) for one in some]) for topic, some in TOPICS.items()
]
FOR_OTHERS = compile_alternatives(
    r"谁.{0,8}(?:[请休]|不在)|有没有人|[帮替给为](?![我你您忙])[\u4e00-\u9fff]{1,3}?[请休报]",
    r"\b(?:leave|days? off|vacation|off)\b.{0,24}\bfor (?:my (?:colleague|friend|wife|husband|team)|him|her|them)",
)
"""Pattern of a request for somebody else, or of a question about others."""
OF_OTHERS = compile_alternatives(
    rf"^.{{0,6}}?(?:{words.HAN_NAME}|[小老][{words.SURNAMES}]|同事|[他她])(?=[要想请休明后今下从现在是也病还剩])",
    rf"{words.LATIN_NAME}(?:\s\w{{1,12}})?\s(?:needs|wants|is|has|takes|will)\b|\b(?:who|is (?:any|some)(?:one|body)"
    rf"|(?:he|she|they) (?:is|are|has))\b|\bdid (?!i\b)\w+ (?:\w+ )?take",
)
OF_ME = compile_alternatives(r"我|\b(?:i|i'?[dm]|i'll|i've|me|my|we|our)\b")
"""Patterns of words about others, and about oneself: without the latter they are about others."""
SPENT, OFF = compile_alternatives(words.BARE_AMOUNT.pattern, words.UNIT), compile_alternatives(r"\boff\b|假")
"""Words of a request that names no topic: an amount beside a category, or a day beside these."""
TALK = frozenset({"thanks", "help", ""})
"""Topics that may open or close a message about something else."""
LOOKUPS = {
    "absences": "list_absences", "balance": "leave_balance", "calculate": "calculate", "handbook": "search_handbook",
    "holidays": "next_holidays", "mine": "my_requests", "picture": "show_process", "processes": "list_processes",
    "status": "request_status", "todo": "query_todo_tasks", "working_days": "working_days",
}  # fmt: skip
"""Topic that changes nothing → the tool that looks it up."""
FREE = frozenset({"mail", "decide", "absence", "urge"})
"""Topics whose words may be about anything."""
OWN = frozenset({*LOOKUPS, "leave", "expense", "mail", "absence", "withdraw", "urge"})
"""Topics that are a matter of their own beside another."""
_JOINING = (
    r"(?:\b(?:and|then)\s|\b(?:also|btw|plus)\b|另外|顺便|还有(?!.{0,3}[几多年假没])|然后|对了|再(?=[给帮跟把替])|同时)"
)
PIECE_END = re.compile(
    rf"(?P<joint>(?<=[\w\s,;.!?，。；！？]){_JOINING})|(?<=[.!?])\s+|(?<=[。！？!?])(?=[^。！？!?])|\n+"
    rf"|(?<!\d)[,，;；](?=.)",
    re.I,
)
CONNECTED_FIRST = re.compile(rf"^[\s,;.，。；]*{_JOINING}[\s,，:：]*(?:also\b\s?)?", re.I)
ORDER = compile_alternatives(
    r"帮|给我|订|买|查|看|\b(?:can|could|please|book|order|find|get me|buy|show|tell|send|make|open)\b"
)
"""Pattern of a request of any kind."""


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


def has_fact(text: str) -> bool:
    return bool(days.remove_days(text) != text or days.list_lengths(text) or words.AMOUNT.search(text))


def match_topic(text: str) -> str:
    """Return the first topic whose words are all found."""
    return next((topic for topic, patterns in RULES if all(one.search(text) for one in patterns)), "")


def find_topic(text: str) -> str:
    """Find the topic of one part of a message. Naming an approver does not make a request a decision."""
    plain = words.remove_approver(text)
    topic = match_topic(plain)
    if topic not in ("withdraw", "mail") and END.search(text):
        return "end"
    is_spent = words.classify_text(text, words.CATEGORIES) and SPENT.search(days.remove_days(plain))
    if topic in TALK and (is_spent or words.AMOUNT.search(plain)):
        return "expense"
    if topic in TALK and days.remove_days(plain) != plain and OFF.search(plain):
        return "leave"
    is_of_others = FOR_OTHERS.search(plain) or (OF_OTHERS.search(plain) and not OF_ME.search(plain))
    return "others" if is_of_others and topic in ("leave", "expense", "absence", "balance", "mine") else topic


def split_message(text: str) -> list[tuple[str, str]]:
    """Split a message where another wish begins; return each part with its topic."""
    if find_topic(text) == "end":
        return [("end", text)]
    if (first := END_FIRST.match(text)) and match_topic(text) != "withdraw":
        rest = split_message(text[first.end() :])
        return [("end", text)] if all(topic in (*TALK, "end") for topic, _ in rest) else [("end", first[0]), *rest]
    parts = list[tuple[str, str]]()
    for joint, piece in cut_pieces(text):
        topic = find_topic(CONNECTED_FIRST.sub("", piece))
        before, said = parts[-1] if parts else ("end", "")
        if before == "end" or begins_another(before, topic, joint, piece):
            parts.append((topic, piece))
        else:
            parts[-1] = (topic if before in TALK and topic else before, said + piece)
    if len(parts) < 2 or not any(topic for topic, _ in parts):
        return [(find_topic(text), text)]
    return [(topic, CONNECTED_FIRST.sub("", part).strip(" \n,，;；")) for topic, part in parts]


def cut_pieces(text: str) -> Iterator[tuple[str, str]]:
    """Yield the pieces of a message, each with what joins it to the one before: `and`, `,` or nothing."""
    start, joint = 0, ""
    for found in [*PIECE_END.finditer(text), None]:
        end = len(text) if found is None else found.start() if found["joint"] else found.end()
        if text[start:end].strip(" ,，。.;；\n"):
            yield joint, text[start:end]
            joint = ""
        if found is not None:
            joint = "and" if found["joint"] or joint == "and" else "," if found[0].strip(" \n") else ""
        start = end


def begins_another(before: str, topic: str, joint: str, piece: str) -> bool:
    """Whether a piece is a matter of its own, and not more words about the one before it."""
    if not topic and joint == "and" and before not in TALK:
        return ORDER.search(piece) is not None and not has_fact(piece)
    if topic in (before, *TALK) or before in TALK:
        return False
    if before in FREE:
        return joint == "and" and topic in OWN
    if before in LOOKUPS and topic in ("leave", "expense") and not has_fact(piece):
        return False
    return topic in OWN and not (joint == "," and topic in ("withdraw", "urge"))


def read_matters(turns: Sequence[PersonTurn]) -> tuple[Matter, ...]:
    """Read what the last message asks for, lookups first. Words without a topic of their own go on with the wish before
    them, if they have something to add to it; no other words do. Nobody goes on with somebody else's wish."""
    matters, wish = tuple[Matter, ...](), Matter("", ("",))
    for turn in [one for one in turns if one.name == turns[-1].name]:
        parts = split_message(turn.text)
        if len(parts) == 1 and goes_on(wish, *parts[0]):
            wish = Matter(wish.topic, (*wish.texts, turn.text), turn.is_after_start)
            matters = (wish,)
            continue
        found = [Matter(topic, (text,)) for topic, text in parts]
        matters = tuple(sorted(found, key=lambda one: one.topic not in (*LOOKUPS, *TALK)))
        wish = matters[-1] if matters[-1].topic not in (*LOOKUPS, *TALK) else wish
    return matters


def goes_on(last: Matter, topic: str, text: str) -> bool:
    """Whether a message of at most 60 characters only adds a fact, a name or a correction to the wish before it."""
    if last.topic == "mail":
        return topic in ("", "mail") and words.SUBJECT.search(text) is not None
    is_marked, is_answer = words.CORRECTION.search(text), words.BARE_NAME.search(text)
    if last.topic not in ("leave", "expense", "absence") or len(text) > 60:
        return False
    if match_topic(text) == last.topic and not is_marked and not is_answer:
        return False
    if topic not in ("", "help", last.topic) and not (is_marked and topic in ("end", "decide", "leave")):
        return False
    kinds = words.LEAVE_NAMES if last.topic == "leave" else words.CATEGORIES
    is_correction = is_marked and (words.classify_text(text, kinds) or words.BARE_AMOUNT.search(text))
    return bool(has_fact(text) or is_answer or words.remove_approver(text) != text or is_correction)
