"""Vocabulary of the rehearsal planner in zh and en, as patterns."""

from __future__ import annotations

import re


def compile_alternatives(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.I)


# Numbers and lengths

DIGITS = {c: n for n, c in enumerate("零一二三四五六七八九")} | {"两": 2, "〇": 0}
ENGLISH = {"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8}
TENS = {"twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70, "eighty": 80, "ninety": 90}
ENGLISH |= {"nine": 9, "ten": 10, "eleven": 11, "twelve": 12}
ENGLISH_WEEKDAYS = ("mon", "tues", "wednes", "thurs", "fri", "satur", "sun")
CHINESE_WEEKDAYS = "一二三四五六日天"
HAN = "零〇一二两三四五六七八九十"
_ENGLISH_NUMBER = r"\b(?:an?|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve)\b"
NUMBER = rf"((?<![\d.])\d{{1,6}}+(?:\.\d{{1,3}}+)?|(?<![{HAN}])[{HAN}]{{1,3}}+|{_ENGLISH_NUMBER})"
HALF = compile_alternatives(r"半天|半日|\bhalf[- ](?:a )?day")
DAYS = compile_alternatives(
    rf"{NUMBER}(?P<half>[ -]and a half)?[\s-]?(?:个\s?)?(?:(?P<working>工作日|working days?|business days?)"
    r"|(?:天|日(?!常)|(?:calendar )?days?\b)(?P<half_zh>半)?)"
)
WEEKS = compile_alternatives(rf"{NUMBER}[\s-]?(?:weeks?\b|个?(?:星期|周)(?![{CHINESE_WEEKDAYS}]))")
SPAN = compile_alternatives(r"到|至|\b(?:to|until|till|through|thru)\b|[–—~]|\s-\s")
AFTERNOON = compile_alternatives(r"下午|afternoon|\bpm\b")

# People

IS = r"\s*+(?:(?:是|为|[:：])\s*+)?"
_HAN_NAME = r"(?![我你您咱]|[这那本个]|领导)[\u4e00-\u6210\u6212-\u9fff]{2,4}?"


def _exclude_words(words: str) -> str:
    """Build a lookahead that excludes words. Both cases of each first letter are written out, so that the engine skips
    the alternatives at once."""
    return rf"(?!(?-i:{'|'.join(f'[{word[0].upper()}{word[0]}]{word[1:]}' for word in words.split())})\b)"


_LATIN_WORD = r"[A-Za-z][\w'-]{0,30}+"
_NO_FIRST_NAME = _exclude_words(
    "please and then so it to ask let have i you will the my can could should who ok okay yes just also now"
)
_NO_SECOND_NAME = _exclude_words("will can should must has to is approve approves for please and")
_LATIN_NAME = rf"(?<![\w'-]){_NO_FIRST_NAME}{_LATIN_WORD}(?:\s{_NO_SECOND_NAME}{_LATIN_WORD})?"
_DECIDES = (
    r"(?-i:(?:来|帮我|帮忙|给我|去)?(?:签字?|报(?!销)|审批|审核|批准|审一?下|批一?下|批(?![了准复])|审(?![批核]))"
    r"(?:一下|下)?(?:吧|就行)?)"
)
MANAGER = compile_alternatives(r"(?:我的?)?(?:直属)?(?:领导|上级|经理|老板|主管|组长)|my (?:line )?(?:manager|boss"
    r"|lead|supervisor)")  # fmt: skip
APPROVERS = (
    compile_alternatives(
        rf"(?:第?[一二两三]级)?审批人(?:换成|改成|改为|写|填)?{IS}([^\s，,。;；]+)",
        rf"(?:找|请|让|叫|由|给|经|走|麻烦)\s?({_HAN_NAME}|{_LATIN_NAME})\s?{_DECIDES}",
        rf"(?<![\u4e00-\u9fff])({_HAN_NAME})\s?{_DECIDES}(?=[\s，,。;；！!]|$)",
        rf"^({_HAN_NAME})[，,]\s?(?:请|麻烦)?{_DECIDES}",
        rf"审批(?:就)?(?:找|给|让|由)\s?({_HAN_NAME}|{_LATIN_NAME})(?=[\s，,。;；！!吧]|$)",
    ),
    compile_alternatives(
        r"\bapprover(?:\s+should\s+be|\s+is|\s?写|\s?是)?(?:\s*+:)?\s++([^,.;，。；\n]+)",
        rf"^({_LATIN_NAME}),\s(?:please\s)?(?:approve|sign)\s(?=my|this)",
        rf"\b(?:approved|approval)\s(?:by|from)\s({_LATIN_NAME})",
        r"\b(?:please\s)?(?:ask|let|have|get|send\s(?:it|this)\sto|goes\sto)\s"
        rf"(my\s\w{{1,12}}|{_LATIN_NAME})\s(?:to\s)?(?:approve|sign|decide|for\sapproval)\b(?:\s(?:it|this))?",
    ),
    compile_alternatives(
        rf"(?:\b(my\s(?:manager|boss|lead|supervisor))|({_LATIN_NAME}))"
        rf"(?:\s?{_DECIDES}(?=[\s，,。;；！!]|$)|\s(?-i:(?:(?:will|can|should|must|has|is)\s)?"
        r"(?:to\s)?(?:(?:be\s)?(?:the|my)\sapprover|approve|approves|approving|signs?\soff)\b(?:\s(?:it|this))?))"
    ),
    compile_alternatives(rf"(?:找|请|让|由|给)?({MANAGER.pattern}){_DECIDES}"),
)
"""Patterns of the approver's name, in the ways in which people name one."""
APPROVER_NOISE = compile_alternatives(r"^(?:应该|还是|就是|should\s+be|换成|改成|改为)\s*|(?<!\s)\s{1,3}(?:because"
    r"|please|for|instead)\b.*$|(?:来)?(?:审批|吧)$")  # fmt: skip
NAME_NOISE = compile_alternatives(r"^(?:审批人|approver|to|就|请|找|给|让|是|is|it'?s|ask|[:：\s])+(?!$)"
    r"|(?<!吧)(?<!审批)(?<!please)(?<!谢谢)(?<!thanks)(?<![。.!！,，\s])(?:吧|审批|please|谢谢|thanks"
    r"|[。.!！,，\s])++$")  # fmt: skip
SURNAMES = "张王李赵刘陈杨黄吴徐孙朱胡郭罗郑梁宋唐邓冯韩曹曾彭萧蔡潘田董袁蒋余叶程苏吕魏丁沈姚卢傅钟姜崔谭廖范汪陆"
BARE_NAME = re.compile(
    rf"(?:找|请|让|就|给|是)?[{SURNAMES}][\u4e00-\u9fff]{{1,2}}?(?:吧|审批|来批)?[。.！!]?"
    r"|(?:ask |it'?s )?(?!Not\b|No\b|Yes\b|Ok\b)[A-Z][a-z]{1,20} [A-Z][a-z]{1,20}(?:,? please)?[.!]?"
)
"""Pattern of an answer that is only a name."""
ASIDE = re.compile(r"[，,；;]\s?")
"""Pattern between the approver's name and the reason, in an answer with both."""

# Reasons

REASON = compile_alternatives(rf"(?:原因|理由|事由){IS}(.+)", r"\breason(?:\s+is)?(?:\s*+:)?\s++(.+)")
CLAUSE = compile_alternatives(r"(?<!\d)[，,]|[，,](?!\d)|[。;；！!？?\n]|\.(?:\s|$)|\s(?:and|because)\s++|因为|由于")
CLAUSE_NOISE = compile_alternatives(r"^(?:(?:hi|hello|hey)(?: there)?|good (?:morning|afternoon|evening)|please"
    r"|sorry|actually|so|also)\b[\s,!.]*|^(?:你好|您好|麻烦|辛苦|另外|对了)[，,！!]?")  # fmt: skip
THANKS = r"^\s*(?:谢谢|多谢|麻烦|你好|您好|(?:thanks?|thank you|please|hi|hello|hey|(?:good )?morning)\b)\W*\w*\W*$"
THANKING, HANZI = compile_alternatives(THANKS), re.compile("[\u4e00-\u9fff]")
SPENDING_NOISE = compile_alternatives(r"^(?:[\s，,。.的:：]|请|帮我|给我|我|想|要|需要|申请|报销|费用|一下|一笔|再"
    r"|\b(?:i|we|want|need|would|like|please|can|could|you|me|to|an?|the|my|of|for|on|claim|submit|paid|spent"
    r"|expenses?|reimburse(?:ment)?)\b)+|(?:[\s，,。.的]|请|帮我|报销|\b(?:for|of|please|expenses?)\b)+$")  # fmt: skip
"""Words around the purpose of spending, after the amount is removed from the sentence."""

# Amounts

FIGURE = r"(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?"
AMOUNT = compile_alternatives(
    rf"(?P<sign>[¥￥$€£])\s*(?P<after>-?{FIGURE})(?![A-Za-z_\d]|[.,，]\d| \d|\s*[十百千万亿])",
    rf"(?<![A-Za-z_.\d-])(?<!\d[,，'’ ])(?P<before>-?{FIGURE})\s*"
    r"(?P<unit>元|块|人民币|美元|美金|欧元?|刀|英?镑|(?:CNY|RMB|USD|EUR|HKD|JPY|GBP|yuan|dollars?|bucks|euros?|pounds?"
    r"|quid)(?![A-Za-z\d]))",
)
"""Pattern of a whole amount: `1e9 CNY`, `1 500 CNY` and `3万元` are never read in part."""
TENTHS = re.compile(r"(?<![\d.,-])(\d{1,6})块(\d)(?!\d)")
"""Pattern of an amount with tenths: `45块5` is 45.5."""
SPELLED = compile_alternatives(
    rf"(?<![{HAN}百千])(?P<zh>(?:[{HAN}]千)?(?:[{HAN}]百)?零?[{HAN}]{{0,3}})(?=元|块|欧|刀|美元|人民币)",
    rf"(?P<en>{_ENGLISH_NUMBER}(?: hundred)?|(?P<tens>\b(?:twenty|thirty|forty|fifty|sixty|seventy|eighty"
    rf"|ninety)\b))(?= (?:dollars?|euros?|yuan|bucks|pounds?|quid)\b)",
)
"""Pattern of an amount in words: *两百欧*, *two hundred euros*."""
BARE_AMOUNT = re.compile(rf"(?<![\w.,-]){FIGURE}(?![\w%-]|[.,]\d)", re.ASCII)
NOT_THIS = compile_alternatives(r"\bnot\s[¥$€£]?[\d.,]{1,12}(?![\d])|(?:不是|而不是|不要)\s?[\d.,]{1,12}")
"""Pattern of an amount that is taken back: `not 230`, `不是230`."""
CURRENCIES = {
    "欧": "EUR", "刀": "USD", "quid": "GBP", "镑": "GBP",
    "¥": "CNY", "￥": "CNY", "元": "CNY", "块": "CNY", "人民币": "CNY", "rmb": "CNY",
    "yuan": "CNY", "$": "USD", "美元": "USD", "美金": "USD", "dollar": "USD", "dollars": "USD", "bucks": "USD",
    "€": "EUR", "欧元": "EUR", "euro": "EUR", "euros": "EUR",
    "£": "GBP", "英镑": "GBP", "pound": "GBP", "pounds": "GBP",
}  # fmt: skip

# Kinds

SICK = compile_alternatives(r"肚子疼|头疼|头痛|牙|发烧|感冒|咳嗽|流感|不舒服|生病|病假|看病|看医生|医院|手术|体检|疼"
    r"|痛|病|\b(?:(?:stomach|head|tooth|back)[- ]?)?ache\b|\b(?:sick|ill|fever|flu|cold|unwell|doctor|dentist"
    r"|hospital|surgery|migraine|medical|under the weather)\b")  # fmt: skip
LEAVE_NAMES = {
    "annual": compile_alternatives(r"年休?假|\b(?:annual(?: leave?| holiday| vacation)?|vacation|pto)\b"),
    "sick": compile_alternatives(r"病假|\bsick (?:leave|days?)\b"),
    "paternity": compile_alternatives(r"陪产假?|\bpaternity\b"),
    "maternity": compile_alternatives(r"产假|\bmaternity\b"),
    "marriage": compile_alternatives(r"婚假|\bmarriage leave\b"),
    "bereavement": compile_alternatives(r"丧假|\bbereavement\b"),
    "comp": compile_alternatives(r"调休|\bcomp(?:ensatory)?\b"),
    "personal": compile_alternatives(r"事假|\bpersonal leave\b"),
}
"""Kind of leave → its own names, which take precedence over other words."""
LOSS = compile_alternatives(r"葬礼|奔丧|丧事|去世|过世|追悼|\b(?:funeral|passed away|died|death|memorial service)\b")
LEAVE_TYPES = {
    "bereavement": LOSS,
    "sick": SICK,
    "marriage": compile_alternatives(r"结婚|婚礼|\b(?:wedding|marriage|honeymoon|getting married)\b"),
    "personal": compile_alternatives(r"私事|\bpersonal\b"),
}
"""Kind of leave → words that suggest it, if no kind is named."""
OF_OTHERS = compile_alternatives(r"孩子|娃|儿子|女儿|老婆|老公|爱人|[爸妈]|父母|家人|老人|宝宝|朋友|同学|同事"
    r"|[哥弟姐妹]|爷|奶|\b(?:kids?|child(?:ren)?|son|daughter|wife|husband|mother|father|mom|mum|dad|parents?|baby"
    r"|brother|sister|friend|dog|cat|grand\w{1,8}|aunt|uncle|cousin|colleague)(?:'s)?\b")  # fmt: skip
"""Words for other people. An illness or wedding of theirs suggests no kind of leave."""
CATEGORIES = {
    "travel": compile_alternatives(r"差旅|出差|机票|高铁|火车|酒店|住宿|\b(?:travel|trip|hotel|flight|trains?\b)"),
    "transport": compile_alternatives(
        r"交通|打车|打的|滴滴|出租|地铁|公交|停车|\b(?:taxi|cab|uber|transport|bus"
        r"|subway|metro|parking)\b"
    ),
    "meals": compile_alternatives(r"餐|饭|招待|请客|咖啡|\b(?:meals?|lunch|dinner|breakfast|catering|coffee)\b"),
    "training": compile_alternatives(r"培训|课程|\b(?:training|course|conference)\b"),
    "office": compile_alternatives(r"办公|文具|打印纸|键盘|鼠标|\b(?:office|stationery|printer paper|keyboard)\b"),
}
OFF_WORDS = (
    "请.{0,14}假|休.{0,8}假|[年病事婚产丧]假|调休|[请休歇].{0,3}[天日周](?!报)|休息|请半天|请.{0,2}天|个假|的假|不舒服",
    r"\b(?:days? off\b|(?:leave|vacation|pto)\b(?! it\b)|time off\b|(?:take|taking|have|need|want|get"
    r"|book)\b.{0,40}\boff\b"
    r"|off (?:from|on|until|tomorrow|today|mon|tue|wed|thu|fri|next|this|dec|\d)|(?:morning|afternoon|week) off\b"
    r"|i(?:'m| am) (?:sick|ill|unwell)\b|(?:sick|ill) (?:today|tomorrow)\b|days?\b.{0,12}\bfrom\b)",
    HALF.pattern,
)
"""Words that ask for a leave."""
DAY_OFF = compile_alternatives(r"[请休].{0,16}假|休息|歇|[年病事]假|请.{0,2}天|\boff\b|\b(?:sick|ill|unwell|leave"
    r"|vacation|pto|holiday)\b")  # fmt: skip
"""Words that make a single day the day off."""
EXPENSE_WORDS = (
    "报销|费用|报一下|报个|花了.{0,20}报|给我报|报了",
    r"\bexpens(?:es?|ing)\b|\breimburs|\bi (?:paid|spent)\b|\bclaim\b",
)
_OF_LEAVE = (
    *(word.replace("病", "") for word in OFF_WORDS), r"\d(?!\d)\s*+(?:天|days?\b)|\b(?:days?|weeks?)\b",
    r"[一二两三四五六七八九十]天|从|审批|approv|\boff\b",
)  # fmt: skip
ABOUT_LEAVE = compile_alternatives(rf"(?=[^\W_])(?:{'|'.join(_OF_LEAVE)})", THANKS)
ABOUT_EXPENSE = compile_alternatives(*EXPENSE_WORDS, AMOUNT.pattern, "审批", "approv", THANKS)
DOUBT = compile_alternatives(r"可能|也许|大概|左右|或者|或是|要么|如果|要是|除了|不要|别|每[天周个月]|小时|[点时]半"
    r"|\d点|点钟|考虑|想想|不确定|没想好|没定|看情况|几天|哪天|改天|之后再|前后|陆续|分开|隔|不对|错了|\b(?:maybe"
    r"|perhaps|might|thinking|not sure|unsure|either|or|if|unless|except|don't|do not|without|every|each|hours?"
    r"|minutes?|roughly|about \d|around|some days?|a few|couple|few|whether|depending|o'clock|wait|no|sorry|actually"
    r"|instead)\b|\d\s?[ap]m\b|\d:\d\d")  # fmt: skip
"""Words with which a wish is not sure enough for a card."""
UNREAD_APPROVER = compile_alternatives(r"签(?!证|约|名|到)|批|\b(?:signs?|approv\w{1,4}|ok)\b")
CORRECTION = compile_alternatives(r"等等|等一下|等下|改成|改为|改到|改一下|换成|不对|错了|弄错|搞错|应该是"
    r"|不是.{1,20}是|说错|写错|还是(?!没)|抱歉|\b(?:make it|change (?:it|that|the)|actually|sorry|i meant?|instead"
    r"|rather|should be|correction|wait|only until|not \d)\b|^\W{0,9}no\b[\s,]")  # fmt: skip
"""Words that take back what was said before."""

# Other matters

REQUEST_ID = compile_alternatives(r"(?<![A-Za-z\d_])([A-Z])-?(\d{3,6})(?![A-Za-z\d_])")
OPINION = compile_alternatives(
    rf"(?:意见|备注|理由|原因){IS}(.+)", r"\b(?:opinion|comment|note|reason|because)(?:\s*+:)?\s++(.+)",
    r"(?:同意|批准|驳回|拒绝|退回)(?:了|吧)?\s*+(?:[A-Za-z]-?\d++\s*+)?[，,：:；;]\s*+(?:(?:意见|备注|理由|原因)(?:是"
    r"|[:：])?\s?)?(.+)",
    r"\b(?:approve|reject|return)\b[^,:;\n]{0,20}[,:;]\s*+(?:(?:opinion|comment|note|reason|because)\s*:?\s)?(.+)",
)  # fmt: skip
"""Pattern of words that go with a verdict: *同意，注意休息*."""
VERDICTS = {
    "reject": compile_alternatives(r"驳回|拒绝|不同意|不批准|\breject\b"),
    "return": compile_alternatives(r"退回|\bsend\b.{0,20}\bback\b|\breturn\b"),
    "approve": compile_alternatives(r"批准|同意|\bapprove\b"),
}
OTHER_PERSON = re.compile(r"你(?:现在)?(?:就)?是\s*[^\s，,。]+|(?i:\byou(?:'re| are)\b)|替|\bas\s+[A-Z]")
AGREED = re.compile(
    r"(?:好的?|行|可以|是的?|对|没问题|嗯|ok(?:ay)?|yes|yep|sure|please)?[\s，,。.!！]{0,4}+"
    r"(?:提交|确认|发送|发出|办理?|同意|go ahead|submit|confirm|send|do it){0,2}(?: it)?[吧了\s。.!！]{0,4}+",
    re.IGNORECASE,
)
"""Pattern of a yes in words, which presses no button."""
ADDRESS = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}+@[\w-]{1,63}\.[\w.-]{1,63}\w", re.ASCII)
SUBJECT = compile_alternatives(
    rf"(?:主题|标题){IS}[「“\"]?(.+?)[」”\"]?(?=[，,。；;\n]|$)", r"\bsubject(?:\s*+:)?\s++(.+?)(?=[,;\n]|\.\s|$)"
)
BODY = re.compile(
    rf"(?:内容|正文){IS}(.+)|\b(?:body|content|text|saying|that says)(?:\s*+:)?\s++(.+)|"
    r"^[^:：\n]{0,60}?(?:\b(?:that|saying|know(?:\s+that)?)\s+(?!says)|(?:邮件|信|消息)[，,]?\s?(?:说|就说"
    r"|告诉[他她])[，,：:]?\s*"
    r"|^[^，,。]{0,4}[跟和][^，,。:：]{1,8}?[说讲](?:一声|一下)?[，,：:]?\s*"
    r"|^[^，,。]{0,4}(?:告诉|通知)[\u4e00-\u9fff]{2,4}[，,：:]\s*|^[^，,。]{0,4}(?:告诉"
    r"|通知)[\u4e00-\u9fff]{2}(?![，,：:]))(.+)$|"
    r"^[^:：]{0,60}(?:(?<!\d)[:：]|[:：](?!\d))\s*(.+)$"
    r"|^.{0,12}\be?-?mail\s[^\s,，]{2,40}(?:\s[A-Z]\w{1,20})?(?:[,，]\s?|\s[-–]\s)(.+)$"
    r"|@[\w.-]{3,60}\s(?:[-–]\s)?(.+)$",
    re.I | re.S,
)
"""Pattern of a mail's text, named or told in a sentence: `tell Li Si that …`, `mail Li Si: …`."""
_WHO = (
    r"(?!to\b|an?\b|the\b|about\b|everyone\b|all\b|my\b)[\w'-]+"
    r"(?:\s+(?!that\b|saying\b|to\b|about\b|an?\b|know\b)[\w'-]+)?"
)
MAIL_TO = re.compile(
    r"(?:跟|和)\s?([\u4e00-\u9fff]{2,4}?)\s?(?:说|讲)|(?:告诉|通知)\s?([\u4e00-\u9fff]{2,4})(?=[，,：:说])|(?:告诉"
    r"|通知)\s?([\u4e00-\u9fff]{2})|"
    rf"(?i:\b(?:e-?mail|mail|write|tell|inform)\s+(?:to\s+)?)({_WHO})(?=\s+(?i:that|saying)\b)|"
    rf"(?i:\blet\s+)({_WHO})(?=\s+(?i:know)\b)|"
    rf"(?i:\b(?:send|write|drop|shoot|give)\s+)({_WHO})(?=\s+(?i:an?\s+(?:e-?mail|mail|note|line|message))\b)|"
    r"给\s*([^\s，,。:：]{1,20}?)\s*(?:发|写)|(?:邮件|信)\s*给\s*([^\s，,。:：]{1,20})|"
    r"(?i:\b(?:e-?)?mail\s+(?:to\s+)?)(?!to\b|about\b|saying\b|that\b|my\b)"
    r"(?:([\w'-]+\s+[\w'-]+)(?=\s*[:：])|([A-Za-z\u4e00-\u9fff][\w'-]*(?:\s+[A-Z][\w'-]*)?))"
)
MAIL_ALL = compile_alternatives(r"给([^。:：发写]{2,80}+)[发写]|(?:邮件|信)\s*+给([^。:：]{2,120})"
    r"|\b(?:e-?)?mail\s++(?:to\s++)?([^:：]{3,120})")  # fmt: skip
"""Pattern of all recipients of a mail."""
MAIL_HEAD = compile_alternatives(r"[:：]|主题|标题|内容|正文|\b(?:subject|body|content|text|saying|that|about)\b")
"""Pattern that ends the recipients' part of a mail order."""
SEVERAL_TO = re.compile(
    r"给\s*[^，,、和与跟及&发写邮信]{1,12}[、和与跟及&][^，,。发写]{1,20}(?:发|写)|"
    r"(?:邮件|信)\s*给\s*[^，,、和与跟及&]{1,12}[、和与跟及&]|"
    r"(?i:\b(?:e-?)?mail\s++(?:to\s++)?(?:[\w'-]++\s++){1,2}(?:and|&)\s++(?!tell|ask|let|say|remind|thank)\w)|"
    r"\b(?i:(?:e-?)?mail)\s++(?:to\s++)?[\w'-]++(?:\s++[\w'-]++)?\s*+[,、，]\s*(?:and\s+)?(?:[A-Z]"
    r"|[\u4e00-\u9fff]{2,3}(?:[,，:：、]|$))"
)
AND = compile_alternatives(r"[、,，&]|和|与|跟|及|\band\b")
_WORD = r"[A-Za-z][\w-]{0,40}+"
TODO_OF = re.compile(
    r"(?=[\u4e00-\u9fff].{1,23}?待[办审])(?:请问|请|帮我|看看|看下|查一下|查查|查|看)*([\u4e00-\u9fff]{2,4}?)(?:现在"
    r"|手上)?(?:的|有(?:什么|哪些|几个|多少))\s*(?:待办|待审批)|"
    rf"(?<![A-Za-z\d_-])({_WORD}(?:\s+{_WORD})?)['’]s\s+(?:open\s+)?(?:tasks|to-?dos?)\b|"
    r"\b(?:tasks|to-?dos?)\s+(?:of|for)\s+([A-Za-z\u4e00-\u9fff][\w-]*(?:\s+[A-Za-z][\w-]*)?)",
    re.I,
)
NOBODY = compile_alternatives(r"[我您你咱]|^(?:现在|今天|目前|所有|全部|剩下|其他|其余|未|没|还|有)|^(?:what|today"
    r"|all|me)\b")  # fmt: skip
"""Words before *tasks* that name no other person."""
NAME = r"(?![A-Z]-?\d)[A-Z][\w'-]{0,40}+(?:\s++[A-Z][\w'-]{0,40}+)?"
DEPUTY = re.compile(
    r"(?:^|[，,。;；\s])(?!我|由|请|让|找)([\u4e00-\u9fff]{2,4}?)(?:来)?[代替帮]我|"
    r"(?:由|请|让|找|委托给?|代理人(?:是|为|[:：])?)\s*+(?!个?[人谁]|别人"
    r"|同事)([^\s，,。;；我]{1,12}?)(?=[来代替帮\s，,。;；]|负责|审批|处理|$)|"
    rf"(?<![A-Za-z'-])({NAME})\s++(?i:(?:will\s+)?(?:stands?\s+in|covers?\b|fills?\s+in)|is\s+(?:my\s+deputy"
    rf"|covering))|(?i:\b(?:let|have|ask)\s+)({NAME})\s++(?i:(?:to\s+)?(?:handle|cover|take|look|approve))"
    rf"|(?i:\bdelegate\s+to|\bdeputy(?:\s+is)?:?)\s+({NAME})"
)
SUM = re.compile(r"[(\d](?:[.\s(+\-*/×÷]{0,9}+[\d)%]){1,200}+")
OPERATOR = r"[\d)%]\s*(?:[+*/×÷]|(?<=\s)-(?=\s))\s*[(\d.]"
"""Pattern of an operator between two numbers. A minus needs spaces around it; otherwise it is part of a date."""
