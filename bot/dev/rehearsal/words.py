"""Vocabulary of the rehearsal planner in zh and en, as patterns."""

from __future__ import annotations

import re

DIGITS = {c: n for n, c in enumerate("零一二三四五六七八九")} | {"两": 2, "〇": 0}
ENGLISH = {"zero": 0, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8}
ENGLISH |= {"nine": 9, "ten": 10, "eleven": 11, "twelve": 12, "a": 1, "an": 1}
ENGLISH_WEEKDAYS = ("mon", "tues", "wednes", "thurs", "fri", "satur", "sun")
CHINESE_WEEKDAYS = "一二三四五六日天"
ENGLISH_MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
    "december",
)  # fmt: skip


def compile_alternatives(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.I)


HAN = "零〇一二两三四五六七八九十"


def build_number_pattern(name: str) -> str:
    """Build the pattern of a number in figures or words, as the group `name`."""
    longest_first = sorted(ENGLISH, key=len, reverse=True)
    words = "|".join(
        f"{first}(?:{'|'.join(word[1:] for word in longest_first if word[0] == first)})"
        for first in sorted({word[0] for word in ENGLISH})
    )
    return rf"(?P<{name}>(?<!\d)\d++(?:\.\d++)?|(?<![{HAN}])[{HAN}]++|(?=[a-z])\b(?:{words})\b)"


HALF = compile_alternatives("半天", "半日", r"\bhalf[- ](?:a )?day")
DAYS = compile_alternatives(
    rf"{build_number_pattern('working')}\s*+(?:个\s*+)?(?:工作日|working days?|business days?)",
    rf"{build_number_pattern('plain')}\s*(?:天|日(?!常)|days?\b)(?P<half>半)?",
)
WEEKS = compile_alternatives(
    rf"{build_number_pattern('en')}\s*weeks?\b",
    rf"{build_number_pattern('zh')}\s*个?(?:星期|周)(?![{CHINESE_WEEKDAYS}])",
)
SPAN = compile_alternatives("到", "至", r"\b(?:to|until|till|through)\b", "[–—~]", r"\s-\s")
AFTERNOON = compile_alternatives("下午", "afternoon", r"\bpm\b")

IS = r"\s*+(?:(?:是|为|[:：])\s*+)?"
_HAN_NAME = r"(?![我你您咱]|[这那本]|领导)[\u4e00-\u9fff]{2,4}?"


def _exclude_words(words: str) -> str:
    """Build a lookahead that excludes words. Both cases of each first letter are written out, so that the engine skips
    the alternatives at once."""
    return rf"(?!(?-i:{'|'.join(f'[{word[0].upper()}{word[0]}]{word[1:]}' for word in words.split())})\b)"


_LATIN_WORD = r"[A-Za-z][\w'-]{0,30}+"
_NO_FIRST_NAME = _exclude_words("please and then so it to ask let have i you will the my can could should")
_NO_SECOND_NAME = _exclude_words("will can should must has to is approve approves for please and")
_LATIN_NAME = rf"(?<![\w'-]){_NO_FIRST_NAME}{_LATIN_WORD}(?:\s{_NO_SECOND_NAME}{_LATIN_WORD})?"
_DECIDES = (
    r"(?-i:(?:来|帮我|帮忙|给我|去)?(?:审批|审核|批准|审一?下|批一?下|批(?![了准复])|审(?![批核]))"
    r"(?:一下|下)?(?:吧|就行)?)"
)
APPROVERS = (
    compile_alternatives(
        rf"(?:第?[一二两三]级)?审批人(?:换成|改成|改为)?{IS}([^\s，,。;；]+)",
        rf"(?:找|请|让|叫|由|给|经|麻烦)\s?({_HAN_NAME}|{_LATIN_NAME})\s?{_DECIDES}",
        rf"(?<![\u4e00-\u9fff])({_HAN_NAME})\s?{_DECIDES}(?=[\s，,。;；！!]|$)",
        rf"^({_HAN_NAME})[，,]\s?(?:请|麻烦)?{_DECIDES}",
        rf"审批(?:就)?(?:找|给|让|由)\s?({_HAN_NAME}|{_LATIN_NAME})(?=[\s，,。;；！!吧]|$)",
    ),
    compile_alternatives(
        r"\bapprover(?:\s+should\s+be|\s+is)?(?:\s*+:)?\s++([^,.;，。；\n]+)",
        rf"^({_LATIN_NAME}),\s(?:please\s)?(?:approve|sign)\s(?=my|this)",
        rf"\b(?:approved|approval)\s(?:by|from)\s({_LATIN_NAME})",
        r"\b(?:please\s)?(?:ask|let|have|get|send\s(?:it|this)\sto|submit\s(?:it|this)\sto|goes\sto)\s"
        rf"(my\s\w{{1,12}}|{_LATIN_NAME})\s(?:to\s)?(?:approve|sign|decide|for\sapproval)\b(?:\s(?:it|this))?",
    ),
    compile_alternatives(
        rf"(?:\b(my\s(?:manager|boss|lead|supervisor))|({_LATIN_NAME}))"
        rf"(?:\s?{_DECIDES}(?=[\s，,。;；！!]|$)|\s(?-i:(?:(?:will|can|should|must|has|is)\s)?"
        r"(?:to\s)?(?:(?:be\s)?(?:the|my)\sapprover|approve|approves|approving|sign\soff|signs\soff)\b(?:\s(?:it|this))?))"
    ),
)
"""Patterns of the approver's name, in all the ways in which people name one."""
APPROVER_NOISE = compile_alternatives(
    r"^(?:应该|还是|就是|should\s+be|换成|改成|改为)\s*",
    r"(?<!\s)\s{1,3}(?:because|please|for|instead)\b.*$",
    "(?:来)?(?:审批|吧)$",
)
MANAGER = compile_alternatives(
    r"(?:我的?)?(?:直属)?(?:领导|上级|经理|老板|主管|组长)", r"my (?:line )?(?:manager|boss|lead|supervisor)"
)
MANAGER_DECIDES = compile_alternatives(
    rf"(?:找|请|让|由|给)?我?的?(?:直属)?(?:领导|上级|经理|老板|主管|组长){_DECIDES}",
    r"\bmy (?:line )?(?:manager|boss|lead|supervisor) (?:(?:will|can|should|has) )?(?:to )?approves?\b",
)
ASIDE = compile_alternatives(r"[，,；;。！!\n]\s*(?:因为|由于|because\b)?", r"\bbecause\b", "因为|由于")
"""Pattern between the approver's name and the reason, in an answer with both."""
NAME_NOISE = compile_alternatives(
    r"^(?:审批人|approver|to|就|请|找|给|让|是|is|it'?s|ask|[:：\s])+(?!$)",
    r"(?<!吧)(?<!审批)(?<!please)(?<!谢谢)(?<!thanks)(?<![。.!！,，\s])(?:吧|审批|please|谢谢|thanks|[。.!！,，\s])++$",
)
REASON = compile_alternatives(rf"(?:原因|理由|事由){IS}(.+)", r"\breason(?:\s+is)?(?:\s*+:)?\s++(.+)")
CLAUSE = compile_alternatives(
    r"(?<!\d)[，,]|[，,](?!\d)|[。;；！!？?\n]", r"\.(?:\s|$)", r"\s(?:and|because)\s++", "因为", "由于"
)
CLAUSE_NOISE = compile_alternatives(
    r"^(?:hi|hello|hey|good (?:morning|afternoon|evening)|please|sorry|actually|so|also)\b[\s,!.]*",
    "^(?:你好|您好|麻烦|辛苦|另外|对了)[，,！!]?",
)
THANKS = r"^\s*(?:谢谢|多谢|麻烦|你好|您好|(?:thanks?|thank you|please|hi|hello|hey)\b)\W*\w*\W*$"

THANKING, HANZI = compile_alternatives(THANKS), re.compile("[\u4e00-\u9fff]")

FIGURE = r"(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?"
AMOUNT = compile_alternatives(
    rf"(?P<sign>[¥￥$€£])\s*(?P<after>-?{FIGURE})(?![A-Za-z_\d]|[.,，]\d| \d|\s*[十百千万亿])",
    rf"(?<![A-Za-z_.\d-])(?<!\d[,，'’ ])(?P<before>-?{FIGURE})\s*"
    r"(?P<unit>元|块|人民币|美元|美金|欧元|英镑|(?:CNY|RMB|USD|EUR|HKD|JPY|GBP|yuan|dollars?|bucks|euros?|pounds?)(?![A-Za-z\d]))",
)
"""Pattern of a whole amount: `1e9 CNY`, `1 500 CNY` and `3万元` are never read in part."""
TENTHS = re.compile(r"(?<![\d.,-])(\d{1,6})块(\d)(?!\d)")
"""Pattern of an amount with tenths: `45块5` is 45.5."""
BARE_AMOUNT = re.compile(rf"(?<![\w.,-]){FIGURE}(?![\w%-]|[.,]\d)", re.ASCII)
NOT_THIS = compile_alternatives(r"\bnot\s[¥$€£]?[\d.,]{1,12}(?![\d])", r"(?:不是|而不是|不要)\s?[\d.,]{1,12}")
"""Pattern of an amount that is taken back: `not 230`, `不是230`."""
CURRENCIES = {
    "¥": "CNY", "￥": "CNY", "元": "CNY", "块": "CNY", "人民币": "CNY", "rmb": "CNY",
    "yuan": "CNY", "$": "USD", "美元": "USD", "美金": "USD", "dollar": "USD", "dollars": "USD", "bucks": "USD",
    "€": "EUR", "欧元": "EUR", "euro": "EUR", "euros": "EUR",
    "£": "GBP", "英镑": "GBP", "pound": "GBP", "pounds": "GBP",
}  # fmt: skip
SICK = compile_alternatives(
    "肚子疼|头疼|头痛|牙疼|发烧|感冒|咳嗽|不舒服|生病|病假|看病|医院|疼|痛|病",
    r"\b(?:(?:stomach|head|tooth|back)[- ]?)?ache\b",
    r"\b(?:sick|ill|fever|flu|cold|unwell|doctor|hospital|surgery)\b",
)
LEAVE_NAMES = {
    "annual": compile_alternatives("年休?假", r"\bannual (?:leave|holiday|vacation)\b"),
    "sick": compile_alternatives("病假", r"\bsick (?:leave|days?)\b"),
    "paternity": compile_alternatives("陪产假?", r"\bpaternity leave\b"),
    "maternity": compile_alternatives("产假", r"\bmaternity leave\b"),
    "marriage": compile_alternatives("婚假", r"\bmarriage leave\b"),
    "bereavement": compile_alternatives("丧假", r"\bbereavement leave\b"),
    "comp": compile_alternatives("调休", r"\bcomp(?:ensatory)? (?:leave|time)\b"),
    "personal": compile_alternatives("事假", r"\bpersonal leave\b"),
}
"""Kind of leave → its own names, which take precedence over other words."""
LEAVE_TYPES = {
    "sick": SICK,
    "maternity": compile_alternatives(r"\bmaternity\b"),
    "paternity": compile_alternatives(r"\bpaternity\b"),
    "marriage": compile_alternatives("结婚", r"\b(?:wedding|marriage)\b"),
    "bereavement": compile_alternatives(r"\b(?:funeral|bereavement)\b"),
    "comp": compile_alternatives(r"\bcomp(?:ensatory)?\b"),
    "personal": compile_alternatives("私事", r"\bpersonal\b"),
}
"""Kind of leave → words that suggest it, if no kind is named."""
OF_OTHERS = compile_alternatives(
    "孩子|娃|儿子|女儿|老婆|老公|爱人|[爸妈]|父母|家人|老人|宝宝|朋友|同学|同事|[哥弟姐妹]",
    r"\b(?:kids?|child(?:ren)?|son|daughter|wife|husband|mother|father|mom|dad|parents?|baby|brother|sister|friend|dog|cat)\b",
)
"""Words for other people. An illness or wedding of theirs suggests no kind of leave."""
CATEGORIES = {
    "travel": compile_alternatives("差旅|出差|机票|高铁|火车|酒店|住宿", r"\b(?:travel|trip|hotel|flight|trains?\b)"),
    "transport": compile_alternatives(
        "交通|打车|打的|滴滴|出租|地铁|公交", r"\b(?:taxi|cab|uber|transport|bus|subway|parking)\b"
    ),
    "meals": compile_alternatives("餐|饭|招待|请客", r"\b(?:meals?|lunch|dinner|breakfast|catering|coffee)\b"),
    "training": compile_alternatives("培训|课程", r"\b(?:training|course)\b"),
    "office": compile_alternatives("办公|文具", r"\b(?:office|stationery)\b"),
}
LEAVE_WORDS = (
    "请.{0,14}假|休.{0,8}假|[年病事婚产丧]假|调休|[请休歇].{0,3}[天日周](?!报)|休息",
    r"\bdays? off\b|\b(?:leave|vacation|pto)\b|\btime off\b|\b(?:take|have|need|want|get)\b.{0,40}\boff\b"
    r"|\boff (?:from|on|until|tomorrow|today|mon|tue|wed|thu|fri|next|this)|\b(?:morning|afternoon|week|day) off\b"
    r"|\bi(?:'m| am) (?:sick|ill|unwell)\b|\b(?:sick|ill) (?:today|tomorrow)\b|\bday off\b|不舒服",
)
DAY_OFF = compile_alternatives(
    "[请休].{0,16}假|休息|歇|[年病事]假", r"\boff\b|\b(?:sick|ill|unwell|leave|vacation|pto|holiday)\b"
)
"""Words that make a single day the day off."""
EXPENSE_WORDS = (
    "报销|费用|报一下|报个|花了.{0,20}报",
    r"\bexpenses?\b|\breimburs|\bi (?:paid|spent)\b|\bclaim\b.{0,12}\d",
)
_OF_LEAVE = (
    *(word.replace("病", "") for word in LEAVE_WORDS), r"\d(?!\d)\s*+(?:天|days?\b)|\b(?:days?|weeks?)\b",
    "[一二两三四五六七八九十]天", "从|审批", "approv", HALF.pattern,
)  # fmt: skip
ABOUT_LEAVE = compile_alternatives(rf"(?=[^\W_])(?:{'|'.join(_OF_LEAVE)})", THANKS)
ABOUT_EXPENSE = compile_alternatives(*EXPENSE_WORDS, AMOUNT.pattern, "审批", "approv", THANKS)
SPENDING_NOISE = compile_alternatives(
    r"^(?:[\s，,。.的]|请|帮我|给我|我|想|要|需要|申请|报销|费用|一下|一笔|"
    r"\b(?:i|we|want|need|would|like|please|can|could|you|me|to|an?|the|my|of|for|on|claim|submit|"
    r"expenses?|reimburse(?:ment)?)\b)+",
    r"(?:[\s，,。.的]|请|帮我|报销|\b(?:for|of|please|expenses?)\b)+$",
)
"""Words around the purpose of spending, after the amount is removed from the sentence."""

REQUEST_ID = compile_alternatives(r"(?<![A-Za-z\d_])([A-Z])-?(\d{3,6})(?![A-Za-z\d_])")
OPINION = compile_alternatives(
    rf"(?:意见|备注|理由|原因){IS}(.+)", r"\b(?:opinion|comment|note|reason|because)(?:\s*+:)?\s++(.+)"
)
SAID_WITH = compile_alternatives(
    r"(?:同意|批准|驳回|拒绝|退回)(?:了|吧)?\s*+(?:[A-Za-z]-?\d++\s*+)?[，,：:；;]\s*+(.+)",
    r"\b(?:approve|reject|return)\b[^,:;\n]{0,20}[,:;]\s*+(.+)",
)
"""Pattern of words that go with a verdict: *同意，注意休息*."""
VERDICTS = {
    "reject": compile_alternatives("驳回|拒绝|不同意|不批准", r"\breject\b"),
    "return": compile_alternatives("退回", r"\bsend\b.{0,20}\bback\b|\breturn\b"),
    "approve": compile_alternatives("批准|同意", r"\bapprove\b"),
}
OTHER_PERSON = re.compile(r"你(?:现在)?(?:就)?是\s*[^\s，,。]+|(?i:\byou(?:'re| are)\b)|替|\bas\s+[A-Z]")
SUBJECT = compile_alternatives(
    rf"(?:主题|标题){IS}[「“\"]?(.+?)[」”\"]?(?=[，,。；;\n]|$)", r"\bsubject(?:\s*+:)?\s++(.+?)(?=[,;\n]|\.\s|$)"
)
BODY = re.compile(rf"(?:内容|正文){IS}(.+)|\b(?:body|content|text|saying|that says)(?:\s*+:)?\s++(.+)", re.I | re.S)
MAIL_TO = re.compile(
    r"(?:跟|和)\s?([\u4e00-\u9fff]{2,4}?)\s?(?:说|讲)|(?:告诉|通知)\s?([\u4e00-\u9fff]{2,4})(?=[，,：:说])|(?:告诉|通知)\s?([\u4e00-\u9fff]{2})|"
    r"(?i:\b(?:e-?mail|mail|write|tell|inform)\s+(?:to\s+)?)((?!to\b|an?\b|the\b)[\w'-]+(?:\s+[\w'-]+)?)(?=\s+(?i:that|saying)\b)|"
    r"(?i:\blet\s+)([\w'-]+(?:\s+[\w'-]+)?)(?=\s+(?i:know)\b)|"
    r"(?i:\b(?:send|write|drop)\s+)((?!to\b|an?\b|the\b)[\w'-]+(?:\s+[\w'-]+)?)(?=\s+(?i:an?\s+(?:e-?mail|mail|note|line|message))\b)|"
    r"给\s*([^\s，,。:：]{1,20}?)\s*(?:发|写)|(?:邮件|信)\s*给\s*([^\s，,。:：]{1,20})|"
    r"(?i:\b(?:e-?)?mail\s+(?:to\s+)?)(?!to\b|about\b)"
    r"(?:([\w'-]+\s+[\w'-]+)(?=\s*[:：])|([A-Za-z\u4e00-\u9fff][\w'-]*(?:\s+[A-Z][\w'-]*)?))"
)
MAIL_ALL = compile_alternatives(
    r"给([^。:：发写]{2,80}+)[发写]",
    r"(?:邮件|信)\s*+给([^。:：]{2,120})",
    r"\b(?:e-?)?mail\s++(?:to\s++)?([^:：]{3,120})",
)
"""Pattern of all recipients of a mail."""
BETWEEN = compile_alternatives("[、,，&和与跟及各]", r"\band\b")
AGREED = re.compile(
    r"(?:好的?|行|可以|是的?|对|没问题|嗯|ok(?:ay)?|yes|yep|sure|please)?[\s，,。.!！]{0,4}+"
    r"(?:提交|确认|发送|发出|办理?|同意|go ahead|submit|confirm|send|do it){0,2}(?: it)?[吧了\s。.!！]{0,4}+",
    re.IGNORECASE,
)
"""Pattern of a yes in words, which presses no button."""
MAIL_TAIL = re.compile(r"^[^:：]{0,60}(?:(?<!\d)[:：]|[:：](?!\d))\s*(.+)$", re.S)
MAIL_THAT = re.compile(
    r"^[^:：\n]{0,60}?(?:\b(?:that|saying|know(?:\s+that)?)\s+(?!says)|(?:邮件|信|消息)[，,]?\s?(?:说|就说|告诉[他她])[，,：:]?\s*|^[^，,。]{0,4}[跟和][^，,。:：]{1,8}?[说讲][，,：:]?\s*"
    r"|^[^，,。]{0,4}(?:告诉|通知)[\u4e00-\u9fff]{2,4}[，,：:]\s*|^[^，,。]{0,4}(?:告诉|通知)[\u4e00-\u9fff]{2}(?![，,：:]))(.+)$",
    re.I | re.S,
)
"""Pattern of a mail's text told in a sentence: `tell Li Si that …`."""
MAIL_HEAD = compile_alternatives(
    r"[:：]", r"主题|标题|内容|正文|\b(?:subject|body|content|text|saying|that says|about)\b"
)
"""Pattern that ends the recipients' part of a mail order."""
SEVERAL = re.compile(
    r"给\s*[^，,、和与跟及&发写邮信]{1,12}[、和与跟及&][^，,。发写]{1,20}(?:发|写)|"
    r"(?:邮件|信)\s*给\s*[^，,、和与跟及&]{1,12}[、和与跟及&]|"
    r"(?i:\b(?:e-?)?mail\s++(?:to\s++)?(?:[\w'-]++\s++){1,2}(?:and|&)\s++(?!tell|ask|let|say|remind|thank)\w)|"
    r"\b(?i:(?:e-?)?mail)\s++(?:to\s++)?[\w'-]++(?:\s++[\w'-]++)?\s*+[,、，]\s*(?:and\s+)?[A-Z\u4e00-\u9fff]"
)

WORD = r"[A-Za-z][\w-]{0,40}+"
TODO_OF = re.compile(
    r"(?=[\u4e00-\u9fff].{1,23}?待[办审])([\u4e00-\u9fff]{2,8}?)(?=[\s现手的有])\s*(?:现在|手上)?(?:的|有(?:什么|哪些|几个|多少))\s*(?:待办|待审批)|"
    rf"(?<![A-Za-z\d_-])({WORD}(?:\s+{WORD})?)\s*+的\s*+(?:待办|待审批)|"
    rf"(?<![A-Za-z\d_-])({WORD}(?:\s+{WORD})?)['’]s\s+(?:open\s+)?(?:tasks|to-?dos?)\b|"
    r"\b(?:tasks|to-?dos?)\s+(?:of|for)\s+([A-Za-z\u4e00-\u9fff][\w-]*(?:\s+[A-Za-z][\w-]*)?)",
    re.I,
)
LOOKING = compile_alternatives(
    "^(?:请问|请|麻烦|帮我|帮忙|给我|我想|我要|想|查一下|看一下|查下|看下|查查|看看|查看|查询|列出|查|看)+",
    r"^(?:(?:please|show|list|check|see|are|is|what|me)\s+)+",
)
NOBODY = compile_alternatives(
    "[我您你咱]", r"^(?:现在|今天|目前|所有|全部|剩下|其他|其余|未|没|还|有)", r"^(?:what|today|all|me)\b"
)
"""Words before *tasks* that name no other person."""

NAME = r"(?![A-Z]-?\d)[A-Z][\w'-]{0,40}+(?:\s++[A-Z][\w'-]{0,40}+)?"
NAMES = rf"{NAME}(?:\s*(?:,|&|\band\b)\s*{NAME})*"
UNTIL = r"(?=[来先吧\s，,。;；]|处理|审批|决定|知悉|在我|和我|$)"
TRANSFER_TO = re.compile(
    rf"转(?:交|审|办)?给?\s*+([^\s，,。;；转]{{1,12}}?){UNTIL}|(?i:\b(?:on\s+)?to\s+)({NAME})|"
    rf"(?i:\btransfer\s+(?:it\s+)?to\s+)(\S+)"
)
ADD_WHO = re.compile(
    rf"加签\s*+(?:(?:给|让|请|[:：])\s*+)?([^\s，,。;；签]{{1,40}}?){UNTIL}|"
    rf"(?i:\b(?:add[- ]sign|co-?sign(?:er)?|ask|add|have))\s+({NAMES})"
)
CC_WHO = re.compile(
    rf"抄送给?\s*+([^\s，,。;；抄]{{1,40}}?){UNTIL}|(?i:\bcc|\bkeep|\bto)\s+({NAMES}|[\u4e00-\u9fff]{{2,4}})"
)
DEPUTY = re.compile(
    r"(?:^|[，,。;；\s])(?!我|由|请|让|找)([\u4e00-\u9fff]{2,4}?)(?:来)?[代替帮]我|"
    r"(?:由|请|让|找|委托给?|代理人(?:是|为|[:：])?)\s*+([^\s，,。;；我]{1,12}?)(?=[来代替帮\s，,。;；]|负责|审批|处理|$)|"
    rf"(?<![A-Za-z'-])({NAME})\s++(?i:(?:will\s+)?(?:stands?\s+in|covers?\b|fills?\s+in)|is\s+(?:my\s+deputy|covering))|(?i:\bdelegate\s+to|\bdeputy(?:\s+is)?:?)\s+({NAME})"
)
AND = compile_alternatives(r"[、,，&]|和|与|及|\band\b")
WHERES = {
    "before": compile_alternatives("之前|先审|先批|先决定|前加签", r"\bbefore\b|\bfirst\b"),
    "after": compile_alternatives("之后|后加签", r"\bafter\b"),
    "beside": compile_alternatives(
        "同时|一起|并行|并加签", r"\bbeside\b|\balongside\b|\bwith me\b|\bat the same time\b"
    ),
}
MODES = {
    "any": compile_alternatives("或签|任意一|任何一|一人即可", r"\bany (?:one )?of\b|\beither\b"),
    "order": compile_alternatives("依次|按顺序", r"\bin (?:this )?order\b|\bone after (?:the|an)other\b"),
}
PROCESS_KINDS = {
    "leave": compile_alternatives("请假|休假", r"\bleave\b"),
    "expense": compile_alternatives("报销|费用", r"\bexpenses?\b"),
}

SUM = re.compile(r"[(\d](?:[.\s(+\-*/×÷]{0,9}+[\d)%]){1,200}+")
OPERATOR = r"[\d)%]\s*(?:[+*/×÷]|(?<=\s)-(?=\s))\s*[(\d.]"
"""Pattern of an operator between two numbers. A minus needs spaces around it; otherwise it is part of a date."""
RULE = (
    "结转|标准|规定|制度|手册|病假条|证明|发票|期限|截止|限额|上限|额度|汇率|补贴|餐补|提前(?:几|多少|多久)|谁来?审?批"
    "|年假.{0,6}(?:几|多少)天|(?:几|多少)天年假|报销.{0,8}(?:多久|什么时候|最晚|到账)"
    r"|\b(?:carry|carried)[- ]?over\b|\bhandbook\b|\bpolic(?:y|ies)\b|\bnotice\b|\ballowance\b|\breceipts?\b"
    r"|\b(?:sick|doctor'?s) note\b|\bdeadline\b|\blimits?\b|\brules\b|\bexchange rate\b|\bbusiness class\b"
)
ASKED = (
    "[?？]|吗|几|多少|多久|什么|怎么|谁|哪|能不能|可不可以|^.{0,10}(?:标准|规定|制度|手册|期限|上限|额度|汇率|补贴|餐补)$"
    r"|^(?:and\s+)?(?:how|what|which|when|who|can|may|do|does|is|are)\b"
    r"|^.{0,24}\b(?:limits?|rules|polic(?:y|ies)|deadline|allowance)$"
)

CORRECTION = compile_alternatives(
    "等等|等一下|等下|改成|改为|改到|改一下|换成|不对|错了|弄错|搞错|应该是|不是.{1,20}是|说错|写错|还是(?!没)",
    r"\b(?:make it|change (?:it|that|the)|actually|sorry|i meant?|instead|rather|should be|correction|wait|not \d)\b",
    r"^\W{0,9}no\b[\s,]",
)
"""Words that take back what was said before."""
