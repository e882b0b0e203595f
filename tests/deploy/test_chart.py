"""The Helm chart, rendered by Helm's own engine and held against the schemas of Kubernetes.

What needs these is skipped where `deploy/requirements-deploy.lock` is not installed; continuous integration has it."""

import copy
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator

from bot.app.settings import Settings
from bot.core.timing import Timing
from bot.platforms.shared import DRAIN_S
from bot.queue import worker

CHART = Path(__file__).parents[2] / "deploy" / "chart"
VERSIONS = ("1.25", "1.31", "1.37")
"""Of Kubernetes: the oldest that the chart takes, one between, the newest whose schemas are there."""
HEALTH = {"HEALTH_PORT", "HEALTH_HOST"}
SECRETS = {
    "SLACK_BOT_TOKEN": "xoxb-not-a-real-one",
    "SLACK_APP_TOKEN": "xapp-not-a-real-one",
    "REDIS_URL": "redis://countersign:p%24w@store:6379/0",
    "OPENAI_API_KEY": 'sk-"quoted"-{{ .Values }}',
    "SMTP_URL": "smtp://mail:587",
}
EXISTING: dict[str, Any] = {"existingSecret": "ours"}
VALUES: dict[str, dict[str, Any]] = {
    "secrets in the release": {"secrets": SECRETS},
    "a secret of one's own": EXISTING,
    "by http": {
        "secrets": SECRETS,
        "replicas": 20,
        "settings": {"SLACK_MODE": "http"},
        "ingress": {"host": "bot.example.com", "className": "nginx", "tlsSecret": "tls", "annotations": {"a": "b"}},
    },
    "everything": {
        **EXISTING,
        "image": {"repository": "registry.example.com/countersign", "digest": f"sha256:{'a' * 64}"},
        "imagePullSecrets": [{"name": "pull"}],
        "settings": {"RUN_TOKENS": 1_000_000, "LEASE_SECONDS": 0.5, "ALLOW_NON_DURABLE": False, "STEPS": "quiet"},
        "companyFiles": {"directory.toml": '[[person]]\nemail = "a@b.example"\nnames = ["张三: {{ 1 }}"]\n'},
        "files": {"existingClaim": "shared"},
        "podAnnotations": {"team": "hr"},
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "a", "operator": "Exists"}],
        "podDisruptionBudget": {"maxUnavailable": "25%"},
    },
}


Documents = list[dict[str, Any]]


def render(values: dict[str, Any]) -> Documents:
    """What would be sent to Kubernetes."""
    helm = pytest.importorskip("helm_python", reason="needs deploy/requirements-deploy.lock")
    with helm.Chart.load(CHART) as chart:
        chart.validate_schema(values)
        files = chart.render(values, name="demo", namespace="prod")
    texts = [text for name, text in files.items() if name.endswith(".yaml")]
    return [document for text in texts for document in yaml.safe_load_all(text) if document]


def find(documents: Documents, kind: str) -> dict[str, Any]:
    return next(one for one in documents if one["kind"] == kind)


def get_pod(documents: Documents) -> dict[str, Any]:
    pod: dict[str, Any] = find(documents, "Deployment")["spec"]["template"]["spec"]
    return pod


def check_values(values: dict[str, Any]) -> Iterator[str]:
    """What Helm would refuse, by the chart's schema."""
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    defaults = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    merged = {**defaults, **{k: {**defaults[k], **v} if isinstance(v, dict) else v for k, v in values.items()}}
    yield from (error.message for error in Draft7Validator(schema).iter_errors(merged))


# What holds of every deployment: the documents, and the values that they are rendered from


def check_what_kubernetes_takes(documents: Documents, values: dict[str, Any]) -> None:
    kubernetes = pytest.importorskip("kubernetes_validate", reason="needs deploy/requirements-deploy.lock")
    for version in VERSIONS:
        for document in documents:
            kubernetes.validate(document, version, strict=True)
    broken = copy.deepcopy(find(documents, "Deployment"))
    broken["spec"]["template"]["spec"]["containers"][0]["readynessProbe"] = {}
    with pytest.raises(kubernetes.ValidationError):
        kubernetes.validate(broken, VERSIONS[-1], strict=True)


def check_that_nobody_gets_more_than_is_needed(documents: Documents, values: dict[str, Any]) -> None:
    pod = get_pod(documents)
    assert pod["securityContext"]["runAsNonRoot"] and pod["securityContext"]["runAsUser"] == 10001
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod)
    assert not any("hostPath" in volume for volume in pod["volumes"])
    for container in pod["containers"]:
        locked = container["securityContext"]
        assert locked["readOnlyRootFilesystem"] and not locked["allowPrivilegeEscalation"]
        assert locked["capabilities"] == {"drop": ["ALL"]}
        assert container["resources"]["limits"]["memory"] and container["resources"]["requests"]


def check_that_every_process_is_asked_whether_it_lives_and_is_ready(
    documents: Documents, values: dict[str, Any]
) -> None:
    container, config = get_pod(documents)["containers"][0], find(documents, "ConfigMap")["data"]
    asked = {name: container[name]["httpGet"] for name in ("startupProbe", "livenessProbe", "readinessProbe")}
    assert [one["path"] for one in asked.values()] == ["/healthz", "/healthz", "/readyz"]
    ports = {one["name"]: one["containerPort"] for one in container["ports"]}
    assert {one["port"] for one in asked.values()} == {"health"}
    assert config["HEALTH_PORT"] == str(ports["health"]) and config["HEALTH_HOST"] == "0.0.0.0"


def check_that_some_are_always_there(documents: Documents, values: dict[str, Any]) -> None:
    """While they are replaced, while a node is emptied, and when a node dies."""
    deployment, budget = find(documents, "Deployment")["spec"], find(documents, "PodDisruptionBudget")["spec"]
    assert deployment["replicas"] > 1 and deployment["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    assert budget["selector"] == deployment["selector"]
    assert deployment["selector"]["matchLabels"].items() <= deployment["template"]["metadata"]["labels"].items()
    pod = get_pod(documents)
    assert pod["topologySpreadConstraints"][0]["labelSelector"] == deployment["selector"]
    assert pod["terminationGracePeriodSeconds"] >= max(Timing().grace_s, DRAIN_S) + worker._FINAL_WRITE_S + 5


def check_that_every_variable_is_a_setting_as_it_is_written(documents: Documents, values: dict[str, Any]) -> None:
    data = find(documents, "ConfigMap")["data"]
    assert {name for name in data if name.lower() not in Settings.model_fields} <= HEALTH
    known = {name.lower(): text for name, text in data.items() if name.lower() in Settings.model_fields}
    read = Settings(**known)
    for name, value in values.get("settings", {}).items():
        assert getattr(read, name.lower()) == value


CHECKS: tuple[Callable[[Documents, dict[str, Any]], None], ...] = (
    check_what_kubernetes_takes,
    check_that_nobody_gets_more_than_is_needed,
    check_that_every_process_is_asked_whether_it_lives_and_is_ready,
    check_that_some_are_always_there,
    check_that_every_variable_is_a_setting_as_it_is_written,
)


def test_every_deployment_is_whole_safe_and_what_kubernetes_takes(subtests: pytest.Subtests) -> None:
    for name, values in VALUES.items():
        documents = render(copy.deepcopy(values))
        for check in CHECKS:
            with subtests.test(f"{name}: {check.__name__}"):
                check(documents, values)


def test_secrets_are_in_the_secret_alone() -> None:
    documents = render(VALUES["secrets in the release"])
    assert find(documents, "Secret")["stringData"] == SECRETS, "as they are, whatever signs they have"
    others = json.dumps([one for one in documents if one["kind"] != "Secret"])
    assert not [value for value in SECRETS.values() if json.dumps(value)[1:-1] in others]
    sources = get_pod(documents)["containers"][0]["envFrom"]
    assert {"secretRef": {"name": "demo-countersign"}} in sources
    own = render(EXISTING)
    assert not [one for one in own if one["kind"] == "Secret"]
    assert {"secretRef": {"name": "ours"}} in get_pod(own)["containers"][0]["envFrom"]


def test_a_changed_setting_replaces_the_processes() -> None:
    def sum_up(**values: Any) -> dict[str, str]:
        notes: dict[str, str] = find(render(values), "Deployment")["spec"]["template"]["metadata"]["annotations"]
        return notes

    before = sum_up(secrets=SECRETS)
    assert sum_up(secrets=SECRETS) == before
    assert sum_up(secrets=SECRETS, settings={"STEPS": "quiet"})["checksum/config"] != before["checksum/config"]
    changed = {**SECRETS, "SMTP_URL": "smtp://x"}
    assert sum_up(secrets=changed)["checksum/secret"] != before["checksum/secret"]


def test_only_slack_is_let_in_and_only_by_http_and_feishu_by_its_own_path() -> None:
    by_socket, by_http = render(VALUES["secrets in the release"]), render(VALUES["by http"])
    assert not {"Service", "Ingress"} & {one["kind"] for one in by_socket}
    assert [one["port"] for one in find(by_socket, "NetworkPolicy")["spec"]["ingress"][0]["ports"]] == ["health"]
    rule = find(by_http, "Ingress")["spec"]["rules"][0]["http"]["paths"]
    assert [one["path"] for one in rule] == ["/slack/events"] and rule[0]["pathType"] == "Exact"
    config = find(by_http, "ConfigMap")["data"]
    assert config["HTTP_PORT"] == str(get_pod(by_http)["containers"][0]["ports"][1]["containerPort"])
    settings = {"SLACK_MODE": "socket", "FEISHU_APP_ID": "cli_1", "FEISHU_MODE": "http"}
    rule = find(render({**VALUES["by http"], "settings": settings}), "Ingress")["spec"]["rules"][0]["http"]["paths"]
    assert [one["path"] for one in rule] == ["/feishu/events"]


def test_with_a_bucket_there_is_no_volume_and_an_image_by_digest_goes_before_its_tag() -> None:
    on_volume, in_bucket = render(EXISTING), render({**EXISTING, "settings": {"FILES_BUCKET": "s3://files"}})
    assert find(on_volume, "PersistentVolumeClaim")["spec"]["accessModes"] == ["ReadWriteMany"]
    assert "PersistentVolumeClaim" not in {one["kind"] for one in in_bucket}
    volumes = [{volume["name"] for volume in get_pod(one)["volumes"]} for one in (on_volume, in_bucket)]
    assert volumes[0] - volumes[1] == {"files"}
    assert "FILES_DIR" not in find(in_bucket, "ConfigMap")["data"]
    digest = VALUES["everything"]["image"]["digest"]
    named = [get_pod(render(VALUES[name]))["containers"][0]["image"] for name in ("everything", "by http")]
    assert named == [f"registry.example.com/countersign@{digest}", "countersign:1.0.0"]


WRONG: tuple[dict[str, Any], ...] = (
    {},
    {"secrets": {"SLACK_BOT_TOKEN": "xoxb-1", "SMTP_URL": "smtp://h"}},
    {"secrets": {**SECRETS, "SLACK_BOT_TOKEN": "xapp-1"}},
    {**EXISTING, "replicas": 10},
    {**EXISTING, "replicas": 0},
    {**EXISTING, "settings": {"SLACK_BOT_TOKEN": "xoxb-1"}},
    {**EXISTING, "settings": {"steps": "quiet"}},
    {**EXISTING, "image": {"digest": "sha256:1"}},
    {**EXISTING, "ingress": {"host": "bot.example.com"}},
    {**EXISTING, "replica": 3},
    {**EXISTING, "healthPort": 80},
)


def test_wrong_values_are_refused_before_anything_is_rendered_and_right_ones_are_not() -> None:
    assert [wrong for wrong in WRONG if not list(check_values(wrong))] == []
    assert {name: found for name, values in VALUES.items() if (found := list(check_values(values)))} == {}


def test_helm_reads_the_schema_as_we_do_and_finds_nothing_to_say() -> None:
    helm = pytest.importorskip("helm_python", reason="needs deploy/requirements-deploy.lock")
    for wrong in ({**EXISTING, "replicas": 10}, {**EXISTING, "replica": 3}):
        with pytest.raises(helm.HelmError):
            render(wrong)
    found = helm.lint(CHART, EXISTING)
    assert found["errors"] == [] and [one["error"] for one in found["messages"]] == ["icon is recommended"]


def test_the_chart_has_the_version_of_the_project() -> None:
    version = re.search(r'^version = "(.+)"$', (CHART.parents[1] / "pyproject.toml").read_text(), re.M)
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert version is not None and chart["version"] == chart["appVersion"] == version[1]
