"""Words that several rules look for, as patterns in zh and en: names, kinds, amounts, doubt."""

from __future__ import annotations

import re
from collections.abc import Mapping


def compile_alternatives(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.I)


def classify_text(text: str, kinds: Mapping[str, re.Pattern[str]]) -> str:
    """Return the first kind whose pattern is found, or an empty text."""
    return next((name for name, pattern in kinds.items() if pattern.search(text)), "")


def find_first_group(pattern: re.Pattern[str], text: str) -> str:
    """Return the first non-empty group of the first match, or an empty text."""
    match = pattern.search(text)
    return next((group.strip() for group in match.groups() if group), "") if match else ""


# People

SURNAMES = "张王李赵刘陈杨黄吴徐孙朱胡郭罗郑梁宋唐邓冯韩曹曾彭萧蔡潘田董袁蒋余叶程苏吕魏丁沈姚卢傅钟姜崔谭廖范汪陆"
HAN_NAME = rf"[{SURNAMES}][\u4e00-\u9fff]{{1,2}}?"
LATIN_NAME = (
    r"(?-i:(?<![\w'-])(?=[A-Z])(?!(?:Please|Can|Could|Should|Will|Also|And|Then|Ask|Let|Have|Get|Send|To|The|My|You|We"
    r"|It|Ok|Hi|I|[A-Z]-?\d)\b)[A-Z][a-zA-Z-]{0,30}+(?:\s[A-Z][a-zA-Z-]{0,30}+)?)(?![a-zA-Z-])"
)
MANAGER = compile_alternatives("(?:我的?)?(?:直属)?(?:领导|上级|经理|老板|主管|组长)", "my (?:manager|boss|lead)")
WHO = rf"{HAN_NAME}|{LATIN_NAME}|{MANAGER.pattern}"
IS = r"\s*+(?:(?:是|为|[:：])\s*+)?"
_DECIDE = r"(?:审批|批|签)(?:一?下|字)?(?:吧|就行)?(?![准了过没复证约名到])"
APPROVERS = (
    compile_alternatives(
        rf"审批人(?:换成|改成|写|填)?{IS}([^\s，,。;；]+?)(?=吧?(?:[\s，,。;；]|$))",
        r"\bapprover(?:\sshould\sbe|\sis|\s写)?:?\s+([^,.;，。；\n]+?)(?=\s?吧|[,.;，。；\n]|$)",
    ),
    compile_alternatives(
        rf"(?:(?:找|请|让|叫|由|给|麻烦)\s?|\b(?:ask|let|have|get)\s)?+({WHO})(?:[，,]?+\s?+(?:来|帮我|请)?+{_DECIDE}"
        r"|,?(?:\s(?:please|will|can|should|to|is))?\s(?:approves?|signs?(?:\soff)?|(?:the|my)\sapprover)\b"
        r"(?:\s(?:it|this)\b)?)",
        rf"\bapprov(?:ed|al)\s(?:by|from)\s({WHO})(?:\splease)?",
    ),
)
"""Patterns of the approver's name. The first one takes any name."""
BARE_NAME = compile_alternatives(rf"^(?:找|请|让|就|是|ask\s)?\s?({WHO})(?:吧|,?\splease)?\s?(?:[。.！!，,;；]|$)")
"""Pattern of an answer that begins with a name alone."""
REQUEST_ID = compile_alternatives(r"(?<![A-Za-z\d_])([A-Z])-?(\d{3,6})(?![A-Za-z\d_])")
SUBJECT = compile_alternatives(rf"(?:主题|标题){IS}(.+?)(?=[，,。；;\n]|$)", r"\bsubject:?\s+(.+?)(?=[,;\n]|\.\s|$)")


def remove_approver(text: str) -> str:
    for pattern in APPROVERS:
        text = pattern.sub("，", text)
    return text


# Kinds

LEAVE_NAMES = {
    "annual": compile_alternatives("年休?假", r"\b(?:annual|vacation|pto)\b"),
    "sick": compile_alternatives("病假", r"\bsick (?:leave|days?)\b"),
    "paternity": compile_alternatives("陪产假?", r"\bpaternity\b"),
    "maternity": compile_alternatives("产假", r"\bmaternity\b"),
    "marriage": compile_alternatives("婚假", r"\bmarriage leave\b"),
    "bereavement": compile_alternatives("丧假", r"\bbereavement\b"),
    "comp": compile_alternatives("调休", r"\bcomp(?:ensatory)?\b"),
    "personal": compile_alternatives("事假", r"\bpersonal leave\b"),
}
"""Kind of leave → its own names. They are sure."""
LEAVE_HINTS = {
    "bereavement": compile_alternatives("葬礼|奔丧|丧事|去世|过世", r"\b(?:funeral|passed away|died|death)\b"),
    "sick": compile_alternatives(
        "发烧|感冒|咳嗽|流感|不舒服|病|医|手术|体检|疼|痛|看牙|拔个?牙",
        r"\b(?:(?:stomach|head|tooth|back)[- ]?)?ache\b",
        r"\b(?:sick|ill|fever|flu|cold|unwell|doctor|dentist|hospital|surgery|migraine|medical)\b",
    ),
    "marriage": compile_alternatives("结婚|婚礼", r"\b(?:wedding|honeymoon|getting (?:married|hitched))\b"),
}
"""Kind of leave → words that suggest it. Only an illness of one's own is sure."""
OF_OTHERS = compile_alternatives(
    "孩子|娃|儿子|女儿|老婆|老公|爱人|[爸妈]|父母|家人|老人|宝宝|朋友|同事|[哥弟姐妹]|爷|奶",
    r"\b(?:kids?|child(?:ren)?|son|daughter|wife|husband|mother|father|mom|mum|dad|parents?|baby|brother|sister|friend"
    r"|dog|cat|grand\w{1,8}|colleague)\b",
)
CATEGORIES = {
    "travel": compile_alternatives("差旅|出差|机票|高铁|火车|酒店|住宿", r"\b(?:travel|trip|hotel|flight|train)\b"),
    "transport": compile_alternatives("交通|打车|出租|地铁|公交|停车", r"\b(?:taxi|cab|uber|transport|parking)\b"),
    "meals": compile_alternatives("餐|饭|招待|请客|咖啡", r"\b(?:meals?|lunch|dinner|breakfast|coffee)\b"),
    "training": compile_alternatives("培训|课程", r"\b(?:training|course|conference)\b"),
    "office": compile_alternatives("办公|文具|打印纸|键盘", r"\b(?:office|stationery|printer paper|keyboard)\b"),
}

# Amounts

FIGURE = r"(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?"
_UNITS = {
    "CNY": "[¥￥元块]|人民币|rmb|cny|yuan", "USD": r"\$|美元|美金|刀|usd|dollars?|bucks", "EUR": "€|欧元?|eur|euros?",
    "GBP": "£|英镑|镑|gbp|pounds?|quid", "HKD": "港币|hkd", "JPY": "日元|jpy",
}  # fmt: skip
CURRENCIES = {code: compile_alternatives(names) for code, names in _UNITS.items()}
UNIT = rf"(?:{'|'.join(_UNITS.values())})(?![A-Za-z\d])"
AMOUNT = compile_alternatives(
    rf"(?P<sign>[¥￥$€£])\s*(?P<after>{FIGURE})(?![A-Za-z_\d]|[.,，]\d| \d|\s*[十百千万亿])",
    rf"(?<![A-Za-z_.\d-])(?<!\d[,，'’ ])(?P<before>{FIGURE})\s*(?P<unit>{UNIT}|块(?=\d(?!\d)))(?P<tenth>(?<=块)\d)?",
)
"""Pattern of a whole amount: `1e9 CNY`, `1 500 CNY` and `3万元` are never read in part; `45块5` is 45.5."""
BARE_AMOUNT = re.compile(rf"(?<![\w.,-])(?<!\bnot )(?<!不是){FIGURE}(?![\w%-]|[.,]\d)", re.ASCII)

# Doubt

CORRECTION = compile_alternatives(
    "等等|等一?下|改成|改为|改到|换成|不对|错了|弄错|应该是|不是.{1,20}是|还是(?!没)|抱歉",
    r"\b(?:make it|change (?:it|that|the)|actually|sorry|i meant?|instead|should be|wait|only until|not \d+)\b"
    r"|^\W{0,9}no\b[\s,]",
)
"""Words that take back what was said before."""
DOUBT = compile_alternatives(
    r"可能|也许|大概|左右|或|要么|如果|要是|不要|别|小时|[点时]半|\d点|点钟|考虑|没定|改天|\d\s?[ap]m\b|\d:\d\d",
    r"\b(?:maybe|perhaps|might|thinking|not sure|either|or|if|unless|don't|do not|hours?|around|no|roughly|whether"
    r"|should i|cancel)\b",
)
"""Words with which a wish is not sure enough for a card."""
