"""The alert rules and the dashboard speak of metrics, labels and values that exist, in PromQL that can be read."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import generate_latest

import bot.approvals.press
import bot.ops.cli  # whatever is measured is imported by now
from bot.agent.models.openai_model import OpenAIModel
from bot.core import metrics
from bot.core.errors import ModelFailureCause
from bot.core.records import EffectState

ROOT = Path(__file__).parents[2]
ALERTS, DASHBOARD = ROOT / "deploy" / "alerts.yaml", ROOT / "deploy" / "dashboard.json"
SELECTOR = re.compile(r"\b([a-z_]+)\{([^}]*)\}")
MATCHER = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"')
GROUPING = re.compile(r"\b(?:by|without)\s*\(([^)]*)\)")
TOKEN = re.compile(
    r"\s+|\d+(?:\.\d+)?(?:[smhdw])?|[a-zA-Z_$][\w$]*|\"[^\"]*\"|=~|!~|!=|>=|<=|==|[-+*/%^(){}\[\],=<>]"
)  # of PromQL, as far as it is used here
WORDS = frozenset(
    {*("abs", "absent", "by", "count", "histogram_quantile", "increase", "max", "min", "rate", "sum", "offset")}
)
CHINESE = re.compile(r"[\u4e00-\u9fff]")
OF_PROMETHEUS = frozenset({"instance", "job", "le"})


def load_metrics() -> dict[str, frozenset[str]]:
    """Name of each series → its labels."""
    known: dict[str, frozenset[str]] = {}
    for collector in vars(metrics).values():
        if hasattr(collector, "_labelnames"):
            kind, labels = type(collector).__name__, frozenset(collector._labelnames)
            endings = {"Histogram": ("_bucket", "_count", "_sum"), "Counter": ("_total",), "Gauge": ("",)}[kind]
            known |= {collector._name + ending: labels for ending in endings}
    known["process_resident_memory_bytes"] = frozenset()
    return known


def list_rules() -> list[dict[str, Any]]:
    [group] = yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"]
    return list(group["rules"])


def list_panels() -> list[dict[str, Any]]:
    return [one for one in json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"] if one["type"] != "row"]


def find_faults(expression: str) -> Iterator[str]:
    """What is wrong with an expression: signs, brackets, names, labels."""
    text, at, open_brackets = expression.replace("$__rate_interval", "5m"), 0, list[str]()
    while at < len(text):
        token = TOKEN.match(text, at)
        if token is None:
            yield f"odd sign {text[at]!r}"
            return
        if token[0] in "([{":
            open_brackets.append({"(": ")", "[": "]", "{": "}"}[token[0]])
        elif token[0] in ")]}" and (not open_brackets or open_brackets.pop() != token[0]):
            yield f"{token[0]} closes nothing"
        at = token.end()
    yield from (f"{one} is missing" for one in open_brackets)
    yield from find_odd_names(text)


OUTCOMES = frozenset(
    {*("acknowledged", "new", "duplicate", "full", "failed", "ok", "done", "later", "lost", "answered"),
     *("cancelled", "sent", "refused", "limited", "unreachable"), *(one.value for one in ModelFailureCause),
     *(one.value for one in EffectState)}
)  # fmt: skip


def find_odd_names(text: str) -> Iterator[str]:
    known = load_metrics()
    bare = re.sub(r'"[^"]*"|\{[^}]*\}|\[[^]]*\]', " ", GROUPING.sub(" ", text))
    names = [one for one in re.findall(r"[a-zA-Z_]\w*", bare) if one not in WORDS]
    yield from (f"no metric {one}" for one in names if one not in known)
    labels = frozenset.union(OF_PROMETHEUS, *(known.get(one, frozenset()) for one in names))
    for group in GROUPING.findall(text):
        yield from (f"no label {one}" for one in map(str.strip, group.split(",")) if one not in labels)
    for name, matchers in SELECTOR.findall(text):
        found = MATCHER.findall(matchers)
        if not found:
            yield f"no matcher in {matchers!r}"
        for label, _, values in found:
            if label not in known.get(name, frozenset()):
                yield f"{name} has no label {label}"
            yield from (f"no value {one} of {label}" for one in values.split("|") if one not in OUTCOMES)


WRONG = (
    "countersign_dead_leters > 0",
    "sum(countersign_dead_letters",
    "sum by (person) (rate(countersign_tokens_total[5m]))",
    'rate(countersign_effects_total{result="unknown"}[5m])',
    'rate(countersign_effects_total{outcome="unkown"}[5m])',
    "countersign_dead_letters ; 1",
    "rate(countersign_effects_total{unknown}[5m])",
)


def test_every_expression_can_be_read_and_names_what_exists() -> None:
    assert bot.ops.cli and bot.approvals.press
    told = [*list_rules(), *(target for one in list_panels() for target in one["targets"])]
    assert {one["expr"]: faults for one in told if (faults := list(find_faults(one["expr"])))} == {}
    assert [wrong for wrong in WRONG if not list(find_faults(wrong))] == [], "the control"


def test_the_dashboard_shows_every_metric_and_the_alerts_watch_those_that_matter() -> None:
    shown = set(re.findall(r"countersign_\w+", " ".join(t["expr"] for one in list_panels() for t in one["targets"])))
    roots = {re.sub(r"_(bucket|count|sum)$", "", one) for one in shown}
    every = {re.sub(r"_(bucket|count|sum)$", "", one) for one in load_metrics() if one.startswith("countersign_")}
    assert roots == every
    watched = set(re.findall(r"countersign_\w+", " ".join(one["expr"] for one in list_rules())))
    for name in ("dead_letters", "effects_total", "clock_offset_seconds", "queue_oldest_seconds", "redis_errors_total",
                 "chat_rate_limits_total", "lease_losses_total", "directory_age_seconds"):  # fmt: skip
        assert f"countersign_{name}" in watched


def test_what_an_alert_counts_from_nothing_is_there_before_it_happens() -> None:
    """Prometheus sees no increase in a series that begins with one."""
    OpenAIModel(client=None, name="a-model")  # type: ignore[arg-type]
    told = generate_latest(metrics.REGISTRY).decode()
    for series in (
        'countersign_effects_total{outcome="unknown",tool="send_email"} ',
        'countersign_accepted_item_seconds_count{outcome="full"} ',
        'countersign_model_request_seconds_count{model="a-model",outcome="quota"} 0.0',
        "countersign_lease_losses_total ",
    ):
        assert series in told, series


def test_every_alert_speaks_both_languages_and_panels_do_not_lie_on_each_other_and_say_their_source() -> None:
    for rule in list_rules():
        assert rule["labels"]["severity"] in ("critical", "warning") and rule["alert"].startswith("Countersign")
        assert rule["annotations"]["summary"] and CHINESE.search(rule["annotations"]["summary_zh"]), rule
        used = set(re.findall(r"\$labels\.(\w+)", str(rule["annotations"])))
        assert used <= set(re.findall(r"\w+", rule["expr"])) | OF_PROMETHEUS, rule["alert"]
    places = set[tuple[int, int]]()
    for panel in json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]:
        at, title = panel["gridPos"], panel["title"]
        here = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not here & places and at["x"] + at["w"] <= 24, title
        places |= here
        assert panel["type"] == "row" or panel["datasource"]["uid"] == "${datasource}"
        assert CHINESE.search(title) or " · " in title, title


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed (apt install prometheus)")
def test_promtool_takes_the_rules_and_they_fire(tmp_path: Path) -> None:
    (tmp_path / "alerts.yaml").write_text(ALERTS.read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "scenes.yaml").write_text(SCENES, encoding="utf-8")
    for command in (("check", "rules", "alerts.yaml"), ("test", "rules", "scenes.yaml")):
        end = subprocess.run(["promtool", *command], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert end.returncode == 0, end.stdout + end.stderr


SCENES = """
rule_files: [alerts.yaml]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - {series: 'countersign_info{instance="a", version="1"}', values: '1x30'}
      - {series: 'countersign_effects_total{tool="send_email", outcome="unknown"}', values: '0x5 1x25'}
      - {series: 'countersign_dead_letters{instance="a"}', values: '0x10 1x20'}
      - {series: 'countersign_clock_offset_seconds{instance="a"}', values: '-40x30'}
    alert_rule_test:
      - {eval_time: 4m, alertname: CountersignEffectUnknown, exp_alerts: []}
      - eval_time: 8m
        alertname: CountersignEffectUnknown
        exp_alerts:
          - exp_labels: {severity: critical, tool: send_email}
            exp_annotations:
              summary: "Nobody knows whether send_email has happened: the person who pressed has to say so on the card."
              summary_zh: "没人知道 send_email 有没有发生：需要点击按钮的人在卡片上说明。"
      - {eval_time: 9m, alertname: CountersignDeadLetters, exp_alerts: []}
      - eval_time: 12m
        alertname: CountersignDeadLetters
        exp_alerts:
          - exp_labels: {severity: critical}
            exp_annotations:
              summary: "1 things were given up after their tries: countersign dead."
              summary_zh: "有 1 项多次失败后被搁置：请运行 countersign dead。"
      - eval_time: 5m
        alertname: CountersignClockOff
        exp_alerts:
          - exp_labels: {severity: warning, instance: a}
            exp_annotations:
              summary: "The clock of a is 40s off that of Redis."
              summary_zh: "a 的时钟与 Redis 相差 40s。"
      - {eval_time: 5m, alertname: CountersignAway, exp_alerts: []}
"""
