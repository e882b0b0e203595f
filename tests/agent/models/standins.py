"""Endpoints as they behave in the wild (state of 2026-11): real servers on loopback, each with one behaviour, over any
model behind the port. Their words and shapes are those of the recorded answers."""

import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count, pairwise
from typing import Any

from aiohttp import web

from bot.agent.model import Model, ModelReply, RawToolCall
from bot.agent.models.openai_model import OpenAIModel, open_model
from bot.core.errors import ModelRejectedError, ModelUnavailableError
from tests.harness.scripted_model import Scripted, ScriptedModel
from tests.harness.workspace_server import serve_routes

Body = dict[str, Any]
MARK = "FORBIDDEN"
"""A prompt with this word in it is kept back by the filter."""
TOOLS_NEED_RESPONSES = (
    "Function tools with reasoning_effort are not supported for m in /v1/chat/completions. To use function tools, "
    "use /v1/responses or set reasoning_effort to 'none'."
)


@dataclass(frozen=True, slots=True)
class Refused:
    """An error as it goes over the wire."""

    status: int
    body: Any


def error(told: str, **more: Any) -> Refused:
    """In OpenAI's shape."""
    return Refused(
        400, {"error": {"message": told, "type": "invalid_request_error", "param": None, "code": None} | more}
    )


def bare_error(told: str, kind: str = "BadRequestError", code: Any = 400) -> Refused:
    """In the shape of vLLM."""
    return Refused(400, {"object": "error", "message": told, "type": kind, "param": None, "code": code})


@dataclass
class StandIn:
    """An ordinary endpoint with both transports. A behaviour overrides what is not ordinary about it."""

    model: Model
    refuses: Callable[[str, Body], Refused | None] = lambda api, body: None
    asked: list[tuple[str, Body]] = field(default_factory=list)
    """(`chat` or `responses`, body) of each request."""
    held: list[ModelReply] = field(default_factory=list)
    """Replies of the model that its endpoint has not brought yet."""
    pairs: list[list[str]] = field(default_factory=list)
    """Ids of the items of each answer that belong together."""
    numbers: Any = field(default_factory=count)
    url: str = ""

    def refuse(self, api: str, body: Body) -> Refused | None:
        """What is wrong with a request; None for nothing."""
        return self.refuses(api, body)

    def dress(self, api: str, answer: Body) -> Body:
        """Add to an answer what is the endpoint's own."""
        return answer

    async def complete(self, request: web.Request) -> web.StreamResponse:
        """Chat completions."""
        body = json.loads(await request.read())
        messages = [{k: v for k, v in one.items() if k != "reasoning_content"} for one in body["messages"]]
        more = {k: body[k] for k in ("tools", "response_format", "stop") if k in body}
        answer = await self._answer("chat", body, messages, more, self._chat)
        return await _stream(request, answer) if isinstance(answer, dict) and body.get("stream") else _send(answer)

    async def respond(self, request: web.Request) -> web.StreamResponse:
        """Responses."""
        body, more = json.loads(await request.read()), Body()
        if "tools" in body:
            told = [{k: v for k, v in one.items() if k != "type"} for one in body["tools"]]
            more["tools"] = [{"type": "function", "function": one} for one in told]
        if form := body.get("text", {}).get("format"):
            more["response_format"] = form
        return _send(await self._answer("responses", body, unfold(body), more, self._responses))

    async def _answer(
        self, api: str, body: Body, messages: Sequence[Body], more: Body, write: Callable[[ModelReply], Body]
    ) -> Body | Refused:
        self.asked.append((api, body))
        if (refused := self.refuse(api, body)) is not None:
            return refused
        reply = await self._reply(messages, more)
        return reply if isinstance(reply, Refused) else self.dress(api, write(reply))

    async def _reply(self, messages: Sequence[Body], more: Body) -> ModelReply | Refused:
        """What the model says: what it has said already and was not brought, first."""
        if self.held:
            return self.held.pop(0)
        try:
            texts = [json.dumps(one, ensure_ascii=False) for one in messages]
            return await self.model.request_reply(texts, json.dumps(more, ensure_ascii=False)[1:-1], timeout_s=30)
        except ModelUnavailableError as down:
            return Refused(503, error(str(down)).body)
        except ModelRejectedError as refused:
            return error(str(refused))

    def number(self, what: str) -> str:
        """An id that no other has."""
        return f"{what}_{next(self.numbers)}"

    def _chat(self, reply: ModelReply) -> Body:
        calls = [
            {"id": self.number("call"), "type": "function", "function": {"name": c.name, "arguments": c.arguments}}
            for c in reply.calls
        ]
        message: Body = {"role": "assistant", "content": reply.text or None}
        message |= {"tool_calls": calls} if calls else {}
        message |= {"refusal": reply.refusal} if reply.refusal else {}
        usage = {"prompt_tokens": reply.tokens_in, "completion_tokens": reply.tokens_out}
        return {"choices": [{"index": 0, "message": message, "finish_reason": reply.finish}], "usage": usage}

    def _responses(self, reply: ModelReply) -> Body:
        calls = [
            {"type": "function_call", "id": self.number("fc"), "call_id": self.number("call"), "status": "completed",
             "name": one.name, "arguments": one.arguments}
            for one in reply.calls
        ]  # fmt: skip
        said = {"type": "output_text", "text": reply.text}
        said = {"type": "refusal", "refusal": reply.refusal} if reply.refusal else said
        message = {"type": "message", "id": self.number("msg"), "role": "assistant", "content": [said]}
        why = {"length": "max_output_tokens", "content_filter": "content_filter"}.get(reply.finish)
        return {
            "id": self.number("resp"),
            "status": "incomplete" if why else "completed",
            "incomplete_details": {"reason": why} if why else None,
            "error": None,
            "output": [*([message] if reply.text or reply.refusal else []), *calls],
            "usage": {"input_tokens": reply.tokens_in, "output_tokens": reply.tokens_out,
                      "output_tokens_details": {"reasoning_tokens": 0}},
        }  # fmt: skip


def unfold(body: Body) -> list[Body]:
    """The messages of chat completions that a Responses request stands for."""
    messages: list[Body] = [{"role": "system", "content": body["instructions"]}] if body.get("instructions") else []
    for item in body["input"]:
        match item.get("type", "message"):
            case "function_call":
                function = {"name": item["name"], "arguments": item["arguments"]}
                if not (messages and messages[-1].get("tool_calls")):
                    messages.append({"role": "assistant", "content": "", "tool_calls": []})
                messages[-1]["tool_calls"].append({"id": item["call_id"], "type": "function", "function": function})
            case "function_call_output":
                messages.append({"role": "tool", "tool_call_id": item["call_id"], "content": item["output"]})
            case "message":
                messages.append({"role": item["role"], "content": item["content"]})
    return messages


def items(body: Body) -> list[Body]:
    return body.get("messages") or body.get("input") or []


def _send(answer: Body | Refused) -> web.Response:
    if not isinstance(answer, Refused):
        return web.json_response(answer)
    headers = {"x-should-retry": "false"} if answer.status >= 500 else {}  # the scripted model's own: it is away
    if isinstance(answer.body, str):
        return web.Response(status=answer.status, text=answer.body, content_type="text/html")
    return web.json_response(answer.body, status=answer.status, headers=headers)


async def _stream(request: web.Request, answer: Body) -> web.StreamResponse:
    """A completion in pieces, with a comment before each."""
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
    await response.prepare(request)
    [choice] = answer["choices"]
    text = choice["message"].get("content") or ""
    deltas: list[Body] = [{"content": text[at : at + 7]} for at in range(0, len(text), 7)]
    for n, call in enumerate(choice["message"].get("tool_calls", ())):
        written = call["function"]["arguments"]
        deltas.append({"tool_calls": [{"index": n, **call, "function": {**call["function"], "arguments": ""}}]})
        parts = [written[at : at + 9] for at in range(0, len(written), 9)]
        deltas += [{"tool_calls": [{"index": n, "function": {"arguments": one}}]} for one in parts]
    events: list[Body] = [{"choices": [{"index": 0, "delta": one, "finish_reason": None}]} for one in deltas]
    events.append({"choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]})
    events.append({"choices": [], "usage": answer["usage"]})
    for event in events:
        await response.write(f": keep-alive\n\ndata: {json.dumps(event, ensure_ascii=False)}\n\n".encode())
    await response.write(b"data: [DONE]\n\n")
    return response


# Refusals


def refuse_tools_in_chat(api: str, body: Body) -> Refused | None:
    refused = api == "chat" and "tools" in body and body.get("reasoning_effort") != "none"
    return error(TOOLS_NEED_RESPONSES, param="reasoning_effort") if refused else None


def refuse_include(api: str, body: Body) -> Refused | None:
    if "include" in body:
        return error("Encrypted content is not supported with this model.", param="include")
    return refuse_tools_in_chat(api, body)


def refuse_temperature(api: str, body: Body) -> Refused | None:
    inner = {"error": {"message": "Unsupported parameter: 'temperature' is not supported with this model."}}
    told = f"litellm.BadRequestError: OpenAIException - {json.dumps(inner)}"
    return error(told, type=None, code="400") if "temperature" in body else None


def refuse_whole_answers(api: str, body: Body) -> Refused | None:
    return None if body.get("stream") else error("This model only support stream mode, please enable it.")


def refuse_mark(api: str, body: Body) -> Refused | None:
    more = {"code": "content_filter", "innererror": {"code": "ResponsibleAIPolicyViolation"}}
    told = "The response was filtered due to the prompt triggering a policy."
    return error(told, **more) if MARK in json.dumps(items(body)[-1:]) else None


def refuse_all(api: str, body: Body) -> Refused:
    told = "You exceeded your current quota, please check your plan and billing details."
    return Refused(429, error(told, type="insufficient_quota", code="insufficient_quota").body)


def refuse_tools(api: str, body: Body) -> Refused | None:
    told = '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'
    return bare_error(told) if "tools" in body else None


def refuse_responses(api: str, body: Body) -> Refused | None:
    missing = Refused(404, "<html><body>404 page not found</body></html>")
    return missing if api == "responses" else refuse_tools_in_chat(api, body)


def refuse_pay(api: str, body: Body) -> Refused | None:
    told = "Invalid schema for function 'pay': schema must have type 'object' and not have 'anyOf' at the top level."
    bad = any(one["function"]["name"] == "pay" for one in body.get("tools", ()))
    return error(told, param="tools", code="invalid_function_parameters") if bad else None


def refuse_late_system(api: str, body: Body, *, is_broken: bool = False) -> Refused | None:
    """The system speaks again behind the first message. `is_broken`: the refusal looks like a moment's failure."""
    if not any(one.get("role") in ("system", "developer") for one in items(body)[1:]):
        return None
    told = "System message must be at the beginning."
    if is_broken:
        told = f"While executing CallExpression at line 85, column 32 in source:\n…\nError: Jinja Exception: {told}"
        return Refused(500, {"error": {"code": 500, "message": told, "type": "server_error"}})
    return error(f"{told} {told}", type="BadRequestError", code=400)


def refuse_two_in_a_row(api: str, body: Body) -> Refused | None:
    turns = [one["role"] for one in items(body) if one["role"] != "tool" and not one.get("tool_calls")]
    told = "After the optional system message, conversation roles must alternate user/assistant/user/assistant/..."
    wrong = not _alternate(turns[1:] if turns[0] == "system" else turns)
    return error(told, type="BadRequestError", code=400) if wrong else None


def refuse_order(api: str, body: Body) -> Refused | None:
    for before, role in pairwise(one["role"] for one in items(body)):
        if role == "system" or (before, role) == ("tool", "user"):
            return bare_error(
                f"Unexpected role '{role}' after role '{before}'", "invalid_request_message_order", "3230"
            )
    return None


def refuse_system(api: str, body: Body) -> Refused | None:
    roles = [one["role"] for one in items(body)]
    if "system" in roles:
        return bare_error("System role not supported")
    told = "Conversation roles must alternate user/assistant/user/assistant/..."
    return None if _alternate(roles) else bare_error(told)


def _alternate(roles: Sequence[str]) -> bool:
    return all((role == "user") == (n % 2 == 0) for n, role in enumerate(roles))


# Endpoints that want something back, or spoil answers


class Paired(StandIn):
    def dress(self, api: str, answer: Body) -> Body:
        if any(one["type"] == "function_call" for one in answer.get("output", ())):
            secret = {"type": "reasoning", "id": self.number("rs"), "summary": [], "encrypted_content": "x" * 20}
            answer["output"].insert(0, secret)
            self.pairs.append([one["id"] for one in answer["output"]])
        return answer

    def refuse(self, api: str, body: Body) -> Refused | None:
        if api == "chat":
            return refuse_tools_in_chat(api, body)
        seen = [one.get("id") for one in body["input"]]
        for pair in self.pairs:
            at = [n for n, one in enumerate(seen) if one == pair[0]]
            if at and seen[at[0] : at[0] + len(pair)] != pair:
                told = f"Item '{pair[0]}' of type 'reasoning' was provided without its required following item."
                return error(told, param="input")
            if not at and any(one in pair for one in seen if one):
                told = f"Item '{pair[-1]}' of type 'function_call' was provided without its required 'reasoning' item"
                return error(f"{told}: '{pair[0]}'.", param="input")
        asked = max((n for n, one in enumerate(body["input"]) if one.get("role") == "user"), default=0)
        calls = [one for one in body["input"][asked:] if one.get("type") == "function_call"]
        if self.pairs and any("id" not in one for one in calls):
            return error("a call came back without its id", param="input")
        return None


class OtherKey(Paired):
    def refuse(self, api: str, body: Body) -> Refused | None:
        if api == "responses" and any(one.get("type") == "reasoning" for one in body["input"]):
            return error("The encrypted content for item rs_1 could not be verified.", code="invalid_encrypted_content")
        return refuse_tools_in_chat(api, body)


class Thinking(StandIn):
    def dress(self, api: str, answer: Body) -> Body:
        answer["choices"][0]["message"]["reasoning_content"] = "r" * 30
        return answer

    def refuse(self, api: str, body: Body) -> Refused | None:
        told = "The reasoning_content in the thinking mode must be passed back to the API."
        lacks = any(one.get("tool_calls") and "reasoning_content" not in one for one in items(body))
        return error(told) if lacks else None


class Signed(StandIn):
    def dress(self, api: str, answer: Body) -> Body:
        for call in answer["choices"][0]["message"].get("tool_calls", ()):
            call["extra_content"] = {"google": {"thought_signature": f"s-{call['id']}"}}
        return answer

    def refuse(self, api: str, body: Body) -> Refused | None:
        asked = max(n for n, one in enumerate(items(body)) if one["role"] == "user")
        for n, call in [(n, call) for n, one in enumerate(items(body)) for call in one.get("tool_calls", ())]:
            signature = call.get("extra_content", {}).get("google", {}).get("thought_signature", "")
            if signature != f"s-{call['id']}" and (n > asked or signature != "skip_thought_signature_validator"):
                told = "Function call is missing a `thought_signature` in functionCall parts."
                return Refused(400, [{"error": {"code": 400, "message": told, "status": "INVALID_ARGUMENT"}}])
        return None


class Relay(StandIn):
    def refuse(self, api: str, body: Body) -> Refused | None:
        failed = Refused(200, {"error": {"code": 502, "message": "Provider returned error"}})
        return failed if len(self.asked) % 2 else None


class Cut(StandIn):
    done = False

    async def _reply(self, messages: Sequence[Body], more: Body) -> ModelReply | Refused:
        reply = await super()._reply(messages, more)
        if isinstance(reply, Refused) or not reply.calls or self.done:
            return reply
        self.done = True
        self.held.append(reply)
        broken = tuple(RawToolCall(one.id, one.name, one.arguments[:-3]) for one in reply.calls)
        return ModelReply(calls=broken, finish="length")


class Empty(StandIn):
    async def _reply(self, messages: Sequence[Body], more: Body) -> ModelReply | Refused:
        return ModelReply() if len(self.asked) == 1 else await super()._reply(messages, more)


BEHAVIOURS: dict[str, Callable[[Model], StandIn]] = {
    # Tools only by Responses, as gpt-5.5 and later.
    "only_responses": partial(StandIn, refuses=refuse_tools_in_chat),
    # Every call that came behind a reasoning item wants it back in front of it; those of earlier messages are told
    # without either.
    "paired": Paired,
    # A model that does not reason has nothing to encrypt.
    "no_include": partial(StandIn, refuses=refuse_include),
    # DeepSeek: thoughts have to come back with the calls.
    "thinking": Thinking,
    # Gemini: every call has a signature that has to come back; one of an earlier message may say that it has none.
    # Errors are in a list.
    "signed": Signed,
    # Nobody can read here what another key's organisation has encrypted.
    "other_key": OtherKey,
    # OpenRouter: every second request ends in an error inside a 200.
    "relay": Relay,
    # LiteLLM: another endpoint's error inside a text.
    "wrapped": partial(StandIn, refuses=refuse_temperature),
    # It answers in a stream only, and keeps the connection open with comments.
    "stream_only": partial(StandIn, refuses=refuse_whole_answers),
    # The first reply with a call is cut off by its length; it comes whole when it is asked for again.
    "cut": partial(Cut, refuses=refuse_tools_in_chat),
    # Azure: a prompt that is kept back.
    "filtered": partial(StandIn, refuses=refuse_mark),
    # The quota is used up.
    "used_up": partial(StandIn, refuses=refuse_all),
    # vLLM without the flags for tools.
    "no_tools": partial(StandIn, refuses=refuse_tools),
    # A relay that knows chat completions alone, in front of a model that takes tools there without reasoning.
    "no_responses": partial(StandIn, refuses=refuse_responses),
    # LM Studio: an empty text in place of the first answer.
    "empty": Empty,
    # The schema of one tool is refused, whatever is asked.
    "bad_schema": partial(StandIn, refuses=refuse_pay),
}
TEMPLATES: dict[str, Callable[[Model], StandIn]] = {
    # Qwen's, behind vLLM.
    "first_system": partial(StandIn, refuses=refuse_late_system),
    # The same behind llama.cpp and LM Studio.
    "first_system_or_broken": partial(StandIn, refuses=partial(refuse_late_system, is_broken=True)),
    # Mistral's: what is neither a result nor a call is by turns the user's and the assistant's.
    "alternating": partial(StandIn, refuses=refuse_two_in_a_row),
    # Mistral's own address: which role may follow which.
    "message_order": partial(StandIn, refuses=refuse_order),
    # Gemma's: the user and the model by turns, and nobody else.
    "no_system": partial(StandIn, refuses=refuse_system),
}
"""Demands of chat templates."""


@asynccontextmanager
async def standing_in(behaviour: str, model: Model) -> AsyncIterator[StandIn]:
    """One of them, listening on loopback over a model."""
    serving = (BEHAVIOURS | TEMPLATES)[behaviour](model)
    routes = [web.post("/v1/chat/completions", serving.complete), web.post("/v1/responses", serving.respond)]
    async with serve_routes(routes) as address:
        serving.url = f"{address}/v1"
        yield serving


@asynccontextmanager
async def served(
    behaviour: str, script: Sequence[Scripted], *, retries: int = 0, **more: Any
) -> AsyncIterator[tuple[StandIn, OpenAIModel]]:
    """A stand-in with this script, and a model that asks it."""
    async with (
        standing_in(behaviour, ScriptedModel([*script])) as serving,
        open_model(serving.url, "key", "m", retries=retries, **more) as model,
    ):
        yield serving, model
