"""What endpoints say instead of an answer, in their own words: what it means, and what it teaches."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.agent.model import ModelReply
from bot.agent.models.chat import ChatCompletionsTransport
from bot.agent.models.client import (
    ErrorResponse,
    build_model_error,
    can_retry_request,
    classify_error,
    parse_error_response,
)
from bot.agent.models.model_profile import (
    OPTIONAL_MEMBERS,
    PROFILE_RECORD,
    ModelProfile,
    RefusedRequest,
    choose_initial_profile,
    is_unreplayable,
    learn_from_error,
)
from bot.agent.models.responses import ResponsesTransport
from bot.core.errors import ModelFailureCause as Cause
from bot.core.errors import ModelRejectedError, ModelUnavailableError
from tests.agent.models.standins import TOOLS_NEED_RESPONSES
from tests.harness.corpus import corpus


def openai(message: str, kind: str = "invalid_request_error", param: Any = None, code: Any = None) -> Any:
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def refused(status: int, body: Any) -> ErrorResponse:
    return parse_error_response(status, {}, body if isinstance(body, bytes) else json.dumps(body).encode())


CAUSES: list[tuple[str, int, Any, Cause]] = [
    ("OpenRouter: what the provider said", 400, {"error": {"message": "Provider returned error", "code": 400,
        "metadata": {"raw": '{"message":"This model\'s maximum context length is 8192 tokens."}'}}}, Cause.CONTEXT),
    ("OpenRouter: no credit", 402, openai("Insufficient credits"), Cause.QUOTA),
    ("OpenAI: quota", 429, openai("quota", "insufficient_quota", None, "insufficient_quota"), Cause.QUOTA),
    ("OpenAI: limit of a project", 429, openai("limit", "x", None, "project_spend_limit_exceeded"), Cause.QUOTA),
    ("Kimi: quota", 429, openai("balance", "exceeded_current_quota_error"), Cause.QUOTA),
    ("GLM: quota", 429, {"error": {"code": "1113", "message": "余额不足"}}, Cause.QUOTA),
    ("GLM: quota as a number", 429, {"error": {"code": 1308, "message": "x"}}, Cause.QUOTA),
    ("OpenAI: rate", 429, openai("try again in 9.66s", "tokens", None, "rate_limit_exceeded"), Cause.BUSY),
    ("OpenAI: one request too large", 429, openai("Request too large for m: Limit 30000, Requested 40000", "tokens",
                                                   None, "rate_limit_exceeded"), Cause.CONTEXT),
    ("OpenAI: key", 401, openai("Incorrect API key", code="invalid_api_key"), Cause.KEY),
    ("OpenAI: region", 403, openai("x", "request_forbidden", None, "unsupported_country_region_territory"), Cause.KEY),
    ("Gemini: key, in a list", 400, [{"error": {"code": 400, "message": "API key not valid.",
                                                "status": "INVALID_ARGUMENT"}}], Cause.KEY),
    ("OpenAI: unknown model, chat", 404, openai("The model `x` does not exist or you do not have access to it.",
                                                code="model_not_found"), Cause.UNKNOWN_MODEL),
    ("OpenAI: unknown model, Responses", 400, openai("The requested model 'x' does not exist.", param="model",
                                                     code="model_not_found"), Cause.UNKNOWN_MODEL),
    ("vLLM: unknown model", 404, {"object": "error", "message": "The model `x` does not exist.", "code": 404},
     Cause.UNKNOWN_MODEL),
    ("Ollama: unknown model", 404, openai('model "x" not found, try pulling it first', "api_error"),
     Cause.UNKNOWN_MODEL),
    ("a proxy: nothing there", 404, b"<html>404</html>", Cause.ADDRESS),
    ("FastAPI: nothing there", 404, {"detail": "Not Found"}, Cause.ADDRESS),
    ("OpenAI: too long, chat", 400, openai("This model's maximum context length is 8192 tokens.",
                                           code="context_length_exceeded"), Cause.CONTEXT),
    ("OpenAI: too long, Responses", 400, openai("Your input exceeds the context window of this model.", param="input",
                                                code="context_length_exceeded"), Cause.CONTEXT),
    ("llama.cpp: too long", 400, openai("the request exceeds the available context size", "exceed_context_size_error"),
     Cause.CONTEXT),
    ("llama.cpp: too long, as a failure", 500, openai("the request exceeds the available context size", "server_error"),
     Cause.CONTEXT),
    ("anybody: a failure", 500, b"oops", Cause.BUSY),
    ("OpenRouter: no endpoint with tools", 404, openai("No endpoints found that support tool use"), Cause.ADDRESS),
    ("OpenAI: bad schema", 400, openai("Invalid schema", param="tools[1].parameters",
                                       code="invalid_function_parameters"), Cause.TOOLS),
    ("a string", 400, {"error": "no"}, Cause.REQUEST),
]  # fmt: skip


def test_errors_are_told_apart(subtests: pytest.Subtests) -> None:
    for about, status, body, cause in CAUSES:
        with subtests.test(about):
            found = refused(status, body)
            assert classify_error(found) is cause and build_model_error(found).cause is cause
            # A refusal is an answer: no other model is asked.
            gone = ModelRejectedError if cause in (Cause.CONTEXT, Cause.REQUEST) else ModelUnavailableError
            assert isinstance(build_model_error(found), gone)
            assert can_retry_request(found) == (cause is Cause.BUSY)


def test_filters_of_each_shape_keep_back() -> None:
    azure = {"code": "content_filter", "innererror": {"code": "ResponsibleAIPolicyViolation"}, "message": "x"}
    for status, body in (
        (400, {"error": azure}),
        (400, openai("x", code="invalid_prompt")),
        (400, {"error": {"code": "1301", "message": "x"}}),
        (403, openai("Your input was flagged: moderation")),
        (400, openai("x", code="data_inspection_failed")),
    ):
        assert refused(status, body).is_content_filtered, body
    assert not refused(403, openai("no access")).is_content_filtered, "negative control"
    body = {"status": "failed", "error": {"code": "invalid_prompt", "message": "x"}}
    failed = ResponsesTransport().parse_response(body, "m", "")
    assert not isinstance(failed, ModelReply) and failed.is_content_filtered


def taught(status: int, body: Any, lessons: ModelProfile, *members: str) -> ModelProfile | None:
    return learn_from_error(lessons, refused(status, body), RefusedRequest(frozenset(members)))


CHAT, RESPONSES = ModelProfile(), ModelProfile("responses")
DROPS: list[tuple[Any, ModelProfile, str]] = [
    (openai("Unsupported parameter: 'temperature' is not supported with this model.", param="temperature"),
     CHAT, "temperature"),
    (openai("Unsupported value: 'temperature' does not support 0.3 with this model.", param="temperature",
            code="unsupported_value"), RESPONSES, "temperature"),
    (openai("invalid temperature: only 1 is allowed for this model"), CHAT, "temperature"),
    (openai("Unsupported parameter: 'stop' is not supported with this model.", code="unsupported_parameter"),
     CHAT, "stop"),
    ({"detail": [{"type": "extra_forbidden", "loc": ["body", "reasoning_effort"],
                  "msg": "Extra inputs are not permitted"}]}, CHAT, "reasoning_effort"),
    (openai("Unsupported parameter: 'reasoning.effort' is not supported with this model.", param="reasoning.effort"),
     RESPONSES, "reasoning_effort"),
    (openai("Encrypted content is not supported with this model.", param="include"), RESPONSES, "include"),
    (openai("Unknown parameter: 'tools[0].strict'.", param="tools[0].strict", code="unknown_parameter"),
     RESPONSES, "strict"),
    (openai("'response_format' of type json_object is not supported"), CHAT, "response_format"),
    (openai("json mode is not supported"), CHAT, "response_format"),
    (openai("response_format: Extra inputs are not permitted"), CHAT, "response_format"),
    (openai("Unknown parameter: 'stream_options'.", param="stream_options"), CHAT, "stream_options"),
]  # fmt: skip


def test_a_member_that_is_not_taken_is_left_out(subtests: pytest.Subtests) -> None:
    for body, lessons, name in DROPS:
        with subtests.test(body=body):
            sent = tuple(OPTIONAL_MEMBERS[lessons.api])
            left_out = replace(lessons, unsupported=frozenset({name}))
            for status in (400, 422):
                assert taught(status, body, lessons, *sent) == left_out
            for status in (401, 403, 429, 500, 503):
                assert taught(status, body, lessons, *sent) is None, "about a key, an account or a moment"
            assert taught(400, body, lessons, *(one for one in sent if one != name)) is None, "it was not even sent"
            assert taught(400, body, left_out, *sent) is None, "it was left out already"


TOOLS = ("look", "list_people", "srv__find", "pay")
REFUSED_TOOLS: list[tuple[str, Any, set[str]]] = [
    ("OpenAI", openai("Invalid schema for function 'pay': In context=(), object schema missing properties.",
                      param="tools[3].function.parameters", code="invalid_function_parameters"), {"pay"}),
    ("OpenAI: a name", openai("Invalid 'tools[2].function.name': string does not match pattern.",
                              param="tools[2].function.name", code="invalid_value"), {"srv__find"}),
    ("DeepSeek", openai("Invalid schema for function 'look': schema must be a JSON Schema of 'type: \"object\"'",
                        code="invalid_request_error"), {"look"}),
    ("LiteLLM", {"error": {"message": "litellm.BadRequestError: OpenAIException - Invalid schema for function 'pay'",
                           "type": None, "param": None, "code": "400"}}, {"pay"}),
    ("Anthropic", openai("tools.2.custom.input_schema: input_schema does not support oneOf at the top level"),
     {"srv__find"}),
    ("Anthropic: a property", openai("tools.0.custom.input_schema.properties: Property keys should match pattern"),
     {"look"}),
    ("Gemini", [{"error": {"code": 400, "status": "INVALID_ARGUMENT", "message":
        "* GenerateContentRequest.tools[0].function_declarations[1].parameters.properties: should be non-empty\n"
        "* GenerateContentRequest.tools[0].function_declarations[3].parameters.required[0]: property is not defined"}}],
     {"list_people", "pay"}),
    ("Vertex", {"error": {"message": "Unable to submit request because `srv__find` functionDeclaration parameters "
                          "schema should be of type OBJECT."}}, {"srv__find"}),
    ("Groq", openai("invalid JSON schema for tool list_people, tools[1].function.parameters: missing type"),
     {"list_people"}),
    ("vLLM", {"detail": [{"type": "x", "loc": ["body", "tools", 3, "function", "parameters"],
                          "msg": "Input should be a valid dictionary"}]}, {"pay"}),
    ("nobody by name", openai("Invalid request content: Invalid function schema."), set()),
    ("a number that is not there", openai("Invalid 'tools[9].function.name'", param="tools[9].function.name"), set()),
]  # fmt: skip


def test_a_tool_that_is_refused_is_known_by_its_name_or_number(subtests: pytest.Subtests) -> None:
    for about, body, names in REFUSED_TOOLS:
        with subtests.test(about):
            refusal, sent = refused(400, body), RefusedRequest(frozenset(), tools=TOOLS)
            assert classify_error(refusal) is Cause.TOOLS, "nobody is told to put it differently"
            lesson = replace(CHAT, refused_tools=frozenset(names)) if names else None
            assert learn_from_error(CHAT, refusal, sent) == lesson
    for other in (
        openai("Invalid 'messages[3].tool_calls[0].function.name': string does not match pattern 'pay'."),
        openai("Invalid schema for response_format 'pay': tools are not allowed", param="response_format"),
        openai("tool call validation failed: parameters for tool pay did not match schema", code="tool_use_failed"),
        openai('"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'),
        openai("This model does not support the parameters: tools, tool_choice"),
        openai(TOOLS_NEED_RESPONSES, param="reasoning_effort"),
    ):
        assert not refused(400, other).is_about_tools, other
    assert not refused(500, REFUSED_TOOLS[0][1]).is_about_tools, "about a moment"


def test_what_is_about_something_else_teaches_nothing() -> None:
    sent = tuple(OPTIONAL_MEMBERS["chat"])
    for body in (
        openai("Invalid 'messages[3].content': string too long", param="messages[3].content"),
        openai("The weather's temperature is unknown: tool failed", param="tools[0].function"),
        openai("'tools' does not support 0.3 with this model.", param="tools"),
        {"error": None},
        [],
    ):
        assert taught(400, body, CHAT, *sent) is None, body


def learn(lessons: ModelProfile, words: str, status: int = 400) -> ModelProfile | None:
    return learn_from_error(lessons, ErrorResponse(status, words), RefusedRequest(frozenset()))


@corpus(
    "words",
    "Only user and assistant roles are supported, with the exception of an initial optional system message!",
    "Only user, assistant and tool roles are supported!",
    "litellm.BadRequestError: MistralException - Unexpected role 'system' after role 'assistant'",
)
def test_words_of_chat_templates_that_are_known(words: str) -> None:
    new = learn(CHAT, words)
    assert new is not None and new.one_system and not new.no_system
    worse = learn(new, words)
    assert worse is not None and worse.no_system, "refused in the same words once more: it takes none"
    assert any("system" in one for one in worse.summary_lines)


@pytest.mark.parametrize(
    "words", ["Invalid role 'system' at index 3.", "messages[4].role: expected 'user' or 'assistant', got 'system'"]
)
def test_of_words_that_nobody_knows_one_thing_is_tried_after_the_other(words: str) -> None:
    lessons, tried = CHAT, list[str]()
    while (new := learn(lessons, words)) is not None:
        lessons = new
        tried.append("; ".join(lessons.summary_lines))
    merged = "neighbouring messages merged"
    assert tried == ["one system message", f"one system message; {merged}", f"no system message; {merged}"]
    other = "messages with role 'tool' must be a response to a preceding message with 'tool_calls'"
    assert learn(CHAT, other) is None, "the control: it is about something else"
    for status in (401, 429, 500, 503):
        moment = "the system is busy" if status == 500 else "System message must be at the beginning."
        assert learn(CHAT, moment, status) is None, "the control: a moment's trouble teaches nothing"


def test_what_cannot_be_replayed_is_known_by_its_words() -> None:
    words = (
        "Item 'rs_1' of type 'reasoning' was provided without its required following item.",
        "Item 'fc_1' of type 'function_call' was provided without its required 'reasoning' item: 'rs_1'.",
        "Item with id 'rs_1' not found. Items are not persisted when `store` is set to false",
        "No tool output found for function call call_X.",
        "The encrypted content gAAA… could not be verified. Reason: …",
    )
    for one in words:
        assert is_unreplayable(refused(400, openai(one, param="input")))
        assert not is_unreplayable(refused(500, openai(one)))
    unsupported = openai("Encrypted content is not supported with this model.", param="include")
    assert not is_unreplayable(refused(400, unsupported))


def test_who_is_asked_how_at_first() -> None:
    for url, api in (
        ("https://api.openai.com/v1/", "responses"),
        ("https://eu.api.openai.com/v1/", "responses"),
        ("https://r.openai.azure.com/openai/v1/", "responses"),
        ("https://api.deepseek.com/", "chat"),
        ("http://127.0.0.1:11434/v1/", "chat"),
        ("https://api.openai.com.evil.example/v1/", "chat"),
    ):
        chosen = [choose_initial_profile(url, wish) for wish in ("auto", "chat", "responses")]
        assert chosen == [ModelProfile(one) for one in (api, "chat", "responses")], url
    for name in ("openai/gpt-oss-120b", "gpt-oss:20b", "GPT-OSS"):
        chosen = choose_initial_profile("http://127.0.0.1:8080/v1", "auto", name)
        assert chosen == ModelProfile(one_system=True), "its template leaves notes out without a word"
    assert choose_initial_profile("https://api.openai.com/v1", "auto", "gpt-5.5") == RESPONSES, "the control"


names = st.sampled_from(sorted({name for one in OPTIONAL_MEMBERS.values() for name in one}))
apis = st.sampled_from(["chat", "responses"])
returned = st.frozensets(st.sampled_from(["reasoning_content", "extra_content"]))
lessons_ = st.builds(
    ModelProfile, apis, st.frozensets(apis), st.frozensets(names), st.sampled_from(["", "none"]), returned,
    *[st.booleans()] * 4, st.frozensets(st.just("pay")),
)  # fmt: skip


@given(lessons_, st.dictionaries(st.text(), st.integers()))
def test_a_record_is_read_as_it_was_written_and_what_is_added_is_passed_over(lessons: ModelProfile, more: Any) -> None:
    record = PROFILE_RECORD.dump_python(lessons, mode="json", by_alias=True)
    assert PROFILE_RECORD.validate_json(json.dumps({**more, **record})) == lessons
    with pytest.raises(ValueError, match="api"):
        PROFILE_RECORD.validate_json(json.dumps({**record, "api": "telepathy"}))


MEMBERS = (
    *("error", "message", "code", "type", "param", "detail", "loc", "msg", "choices", "output", "usage", "status"),
    *("content", "tool_calls", "delta", "index", "item", "response", "innererror", "text", "function", "arguments"),
    *("extra_content", "incomplete_details", "reason", "finish_reason"),
)
json_ = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(MEMBERS), inner, max_size=5),
    max_leaves=25,
)


@given(json_, st.integers(200, 599))
def test_whatever_an_endpoint_sends_it_is_read_without_an_error(answer: Any, status: int) -> None:
    refusal = refused(status, answer)
    assert isinstance(build_model_error(refusal), ModelUnavailableError | ModelRejectedError)
    assert isinstance(refusal.is_content_filtered, bool)
    for lessons in (CHAT, RESPONSES):
        learn_from_error(lessons, refusal, RefusedRequest(frozenset(OPTIONAL_MEMBERS[lessons.api])))
    for transport in (ChatCompletionsTransport(), ResponsesTransport()):
        for body in (answer, transport.join_events([answer, answer], has_said_end=True)):
            reply = transport.parse_response(body, "m", "tag")
            if isinstance(reply, ModelReply):
                assert isinstance(reply.text, str) and all(isinstance(one.arguments, str) for one in reply.calls)


def test_what_is_incomplete_is_never_taken_for_whole(subtests: pytest.Subtests) -> None:
    call = {"type": "function_call", "call_id": "c1", "id": "fc_1", "name": "pay", "arguments": "{}"}
    usage = {"input_tokens": 9, "output_tokens": 5, "input_tokens_details": {"cached_tokens": 3},
             "output_tokens_details": {"reasoning_tokens": 4}}  # fmt: skip
    for reason, finish in [
        ("max_output_tokens", "length"), ("content_filter", "content_filter"), ("steered", "length"), ("", "tool_calls")
    ]:  # fmt: skip
        with subtests.test(reason=reason):
            end = (
                {"status": "incomplete", "incomplete_details": {"reason": reason}}
                if reason
                else {"status": "completed"}
            )
            reply = ResponsesTransport().parse_response({**end, "output": [call], "usage": usage}, "m", "tag")
            assert isinstance(reply, ModelReply) and reply.finish == finish
            assert (reply.tokens_in, reply.tokens_cached, reply.tokens_out) == (9, 3, 5)


def test_the_words_of_a_list_are_read_and_its_thoughts_are_not() -> None:
    parts = [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "Hello"}]
    reply = ChatCompletionsTransport().parse_response({"choices": [{"message": {"content": parts}}]}, "m", "")
    assert isinstance(reply, ModelReply) and reply.text == "Hello"
