"""Endpoints as they behave in the wild (state of 2026-11): real servers on loopback, each with one behaviour, over any
model behind the port. Their words and shapes are those of the recorded answers."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from aiohttp import web

from bot.agent.model import Model, ModelReply, RawToolCall
from bot.agent.models.openai_model import OpenAIModel, open_model
from bot.core.errors import ModelRejectedError, ModelUnavailableError
from tests.harness.scripted_model import Scripted, ScriptedModel

Body = dict[str, Any]
HTML = b"<html><body>404 page not found</body></html>"
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


def error(status: int, message: str, **more: Any) -> Refused:
    """In OpenAI's shape."""
    told = {"message": message, "type": "invalid_request_error", "param": None, "code": None, **more}
    return Refused(status, {"error": told})


@dataclass
class StandIn:
    """An ordinary endpoint with both transports. A behaviour overrides what is not ordinary about it."""

    model: Model
    asked: list[tuple[str, Body]] = field(default_factory=list)
    """(`chat` or `responses`, body) of each request."""
    held: list[ModelReply] = field(default_factory=list)
    """Replies of the model that its endpoint has not brought yet."""
    pairs: list[list[str]] = field(default_factory=list)
    """Ids of the items of each answer that belong together."""
    count: int = 0
    url: str = ""

    def refuse(self, api: str, body: Body) -> Refused | None:
        """What is wrong with a request; None for nothing."""

    def dress_chat(self, answer: Body) -> Any:
        return answer

    def dress_responses(self, answer: Body) -> Any:
        return answer

    streams = False

    async def complete(self, request: web.Request) -> web.StreamResponse:
        """Chat completions."""
        body = json.loads(await request.read())
        self.asked.append(("chat", body))
        if (refused := self.refuse("chat", body)) is not None:
            return _refusal(refused)
        messages = [{k: v for k, v in one.items() if k != "reasoning_content"} for one in body["messages"]]
        reply = await self._reply(messages, {k: body[k] for k in ("tools", "response_format", "stop") if k in body})
        if isinstance(reply, Refused):
            return _refusal(reply)
        answer = self.dress_chat(self._chat(reply))
        return await _streamed(request, answer) if body.get("stream") else web.json_response(answer)

    async def respond(self, request: web.Request) -> web.StreamResponse:
        """Responses."""
        body = json.loads(await request.read())
        self.asked.append(("responses", body))
        if (refused := self.refuse("responses", body)) is not None:
            return _refusal(refused)
        more: Body = {}
        if "tools" in body:
            more["tools"] = [{"type": "function", "function": {k: v for k, v in one.items() if k != "type"}}
                             for one in body["tools"]]  # fmt: skip
        if form := body.get("text", {}).get("format"):
            more["response_format"] = form
        reply = await self._reply(unfold(body), more)
        return _refusal(reply) if isinstance(reply, Refused) else web.json_response(
            self.dress_responses(self._responses(reply))
        )  # fmt: skip

    async def _reply(self, messages: Sequence[Body], more: Body) -> ModelReply | Refused:
        """What the model says: what it has said already and was not brought, first."""
        if self.held:
            return self.held.pop(0)
        try:
            texts = [json.dumps(one, ensure_ascii=False) for one in messages]
            return await self.model.request_reply(texts, json.dumps(more, ensure_ascii=False)[1:-1], timeout_s=30)
        except ModelUnavailableError as down:
            return error(503, str(down))
        except ModelRejectedError as refused:
            return error(400, str(refused))

    def number(self, what: str) -> str:
        """An id that no other has."""
        self.count += 1
        return f"{what}_{self.count}"

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
        calls: list[Body] = [
            {"type": "function_call", "id": self.number("fc"), "call_id": self.number("call"), "status": "completed",
             "name": one.name, "arguments": one.arguments}
            for one in reply.calls
        ]  # fmt: skip
        said = (
            {"type": "refusal", "refusal": reply.refusal}
            if reply.refusal
            else {"type": "output_text", "text": reply.text}
        )
        message: Body = {"type": "message", "id": self.number("msg"), "role": "assistant", "content": [said]}
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
                call = {"id": item["call_id"], "type": "function",
                        "function": {"name": item["name"], "arguments": item["arguments"]}}  # fmt: skip
                if messages and messages[-1].get("tool_calls"):
                    messages[-1]["tool_calls"].append(call)
                else:
                    messages.append({"role": "assistant", "content": "", "tool_calls": [call]})
            case "function_call_output":
                messages.append({"role": "tool", "tool_call_id": item["call_id"], "content": item["output"]})
            case "message":
                messages.append({"role": item["role"], "content": item["content"]})
    return messages


def outputs(body: Body) -> bool:
    """It brings the result of a call."""
    return any(one.get("role") == "tool" or one.get("type") == "function_call_output" for one in items(body))


def items(body: Body) -> list[Body]:
    return body.get("messages") or body.get("input") or []


class OnlyResponses(StandIn):
    """1: tools only by Responses, as gpt-5.5 and later."""

    def refuse(self, api: str, body: Body) -> Refused | None:
        if api == "chat" and "tools" in body and body.get("reasoning_effort") != "none":
            return error(400, TOOLS_NEED_RESPONSES, param="reasoning_effort")
        return None


class Paired(OnlyResponses):
    """2: every call that came behind a reasoning item wants it back in front of it; those of earlier messages are told
    without either."""

    def dress_responses(self, answer: Body) -> Any:
        if any(one["type"] == "function_call" for one in answer["output"]):
            secret = {"type": "reasoning", "id": self.number("rs"), "summary": [], "encrypted_content": "x" * 20}
            answer["output"].insert(0, secret)
            self.pairs.append([one["id"] for one in answer["output"]])
        return answer

    def refuse(self, api: str, body: Body) -> Refused | None:
        if api == "chat":
            return super().refuse(api, body)
        seen = [one.get("id") for one in body["input"]]
        for pair in self.pairs:
            at = [n for n, one in enumerate(seen) if one == pair[0]]
            if at and seen[at[0] : at[0] + len(pair)] != pair:
                told = f"Item '{pair[0]}' of type 'reasoning' was provided without its required following item."
                return error(400, told, param="input")
            if not at and any(one in pair for one in seen if one):
                told = f"Item '{pair[-1]}' of type 'function_call' was provided without its required 'reasoning' item"
                return error(400, f"{told}: '{pair[0]}'.", param="input")
        made = [one for pair in self.pairs for one in pair if one.startswith("fc_")]
        asked = max((n for n, one in enumerate(body["input"]) if one.get("role") == "user"), default=0)
        calls = [one for one in body["input"][asked:] if one.get("type") == "function_call"]
        if made and any("id" not in one for one in calls):
            return error(400, "a call came back without its id", param="input")
        return None


class NoInclude(OnlyResponses):
    """3: a model that does not reason has nothing to encrypt."""

    def refuse(self, api: str, body: Body) -> Refused | None:
        if "include" in body:
            return error(400, "Encrypted content is not supported with this model.", param="include")
        return super().refuse(api, body)


class Thinking(StandIn):
    """4: DeepSeek: what was thought has to come back with the calls."""

    def dress_chat(self, answer: Body) -> Any:
        answer["choices"][0]["message"]["reasoning_content"] = "r" * 30
        return answer

    def refuse(self, api: str, body: Body) -> Refused | None:
        if any(one.get("tool_calls") and "reasoning_content" not in one for one in items(body)):
            return error(400, "The reasoning_content in the thinking mode must be passed back to the API.")
        return None


class Signed(StandIn):
    """5: Gemini: every call has a signature that has to come back; one of an earlier message may say that it has none.
    Errors are in a list."""

    def dress_chat(self, answer: Body) -> Any:
        for call in answer["choices"][0]["message"].get("tool_calls", ()):
            call["extra_content"] = {"google": {"thought_signature": f"s-{call['id']}"}}
        return answer

    def refuse(self, api: str, body: Body) -> Refused | None:
        some = items(body)
        asked = max(n for n, one in enumerate(some) if one["role"] == "user")
        for n, one in enumerate(some):
            for call in one.get("tool_calls", ()):
                signature = call.get("extra_content", {}).get("google", {}).get("thought_signature", "")
                if signature != f"s-{call['id']}" and (n > asked or signature != "skip_thought_signature_validator"):
                    return self._unsigned()
        return None

    def _unsigned(self) -> Refused:
        told = "Function call is missing a `thought_signature` in functionCall parts."
        return Refused(400, [{"error": {"code": 400, "message": told, "status": "INVALID_ARGUMENT"}}])


class OtherKey(Paired):
    """6: what was encrypted by another key's organisation cannot be read here."""

    def refuse(self, api: str, body: Body) -> Refused | None:
        if api == "responses" and any(one.get("type") == "reasoning" for one in body["input"]):
            told = "The encrypted content for item rs_1 could not be verified."
            return error(400, told, code="invalid_encrypted_content")
        return OnlyResponses.refuse(self, api, body)


class Relay(StandIn):
    """7: OpenRouter: every second request ends in an error inside a 200."""

    def refuse(self, api: str, body: Body) -> Refused | None:
        if len(self.asked) % 2:
            return Refused(200, {"error": {"code": 502, "message": "Provider returned error"}})
        return None


class Wrapped(StandIn):
    """8: LiteLLM: another endpoint's error inside a text."""

    def refuse(self, api: str, body: Body) -> Refused | None:
        if "temperature" not in body:
            return None
        inner = {"error": {"message": "Unsupported parameter: 'temperature' is not supported with this model."}}
        told = f"litellm.BadRequestError: OpenAIException - {json.dumps(inner)}"
        return Refused(400, {"error": {"message": told, "type": None, "param": None, "code": "400"}})


class StreamOnly(StandIn):
    """9: it answers in a stream only, and keeps the connection open with comments."""

    def refuse(self, api: str, body: Body) -> Refused | None:
        return None if body.get("stream") else error(400, "This model only support stream mode, please enable it.")


class Cut(OnlyResponses):
    """10: the first reply with a call is cut off by its length; it comes whole when it is asked for again."""

    done = False

    async def _reply(self, messages: Sequence[Body], more: Body) -> ModelReply | Refused:
        reply = await super()._reply(messages, more)
        if isinstance(reply, ModelReply) and reply.calls and not self.done:
            self.done = True
            self.held.append(reply)
            broken = tuple(RawToolCall(one.id, one.name, one.arguments[:-3]) for one in reply.calls)
            return ModelReply(calls=broken, finish="length")
        return reply


class Filtered(StandIn):
    """11: Azure: a prompt that is kept back."""

    def refuse(self, api: str, body: Body) -> Refused | None:
        if MARK not in json.dumps(items(body)[-1:]):
            return None
        more = {"code": "content_filter", "innererror": {"code": "ResponsibleAIPolicyViolation"}}
        return error(400, "The response was filtered due to the prompt triggering a policy.", **more)


class UsedUp(StandIn):
    """12: what was paid for is used up."""

    def refuse(self, api: str, body: Body) -> Refused | None:
        more = {"type": "insufficient_quota", "code": "insufficient_quota"}
        return error(429, "You exceeded your current quota, please check your plan and billing details.", **more)


class NoTools(StandIn):
    """13: vLLM without the flags for tools."""

    def refuse(self, api: str, body: Body) -> Refused | None:
        if "tools" not in body:
            return None
        told = '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'
        return Refused(400, {"object": "error", "message": told, "type": "BadRequestError", "param": None, "code": 400})


class NoResponses(OnlyResponses):
    """14: a relay that knows chat completions alone, in front of a model that takes tools there without reasoning."""

    def refuse(self, api: str, body: Body) -> Refused | None:
        return Refused(404, HTML) if api == "responses" else super().refuse(api, body)


class Empty(StandIn):
    """15: LM Studio: an empty text in place of the first answer."""

    done = False

    async def _reply(self, messages: Sequence[Body], more: Body) -> ModelReply | Refused:
        if not self.done:
            self.done = True
            return ModelReply()
        return await super()._reply(messages, more)


class BadSchema(StandIn):
    """16: the schema of one tool is refused, whatever is asked."""

    def refuse(self, api: str, body: Body) -> Refused | None:
        told = (
            "Invalid schema for function 'pay': schema must have type 'object' and not have 'anyOf' at the top level."
        )
        bad = any(one["function"]["name"] == "pay" for one in body.get("tools", ()))
        return error(400, told, param="tools", code="invalid_function_parameters") if bad else None


def is_late_system(body: Body) -> bool:
    """The system speaks again behind the first message."""
    return any(one.get("role") in ("system", "developer") for one in items(body)[1:])


class FirstSystem(StandIn):
    """Qwen's chat template, behind vLLM."""

    def refuse(self, api: str, body: Body) -> Refused | None:
        told = "System message must be at the beginning. System message must be at the beginning."
        return error(400, told, type="BadRequestError", code=400) if is_late_system(body) else None


class FirstSystemOrBroken(StandIn):
    """The same template behind llama.cpp and LM Studio: their 500 looks like a moment's."""

    def refuse(self, api: str, body: Body) -> Refused | None:
        told = "While executing CallExpression at line 85, column 32 in source:\n…\nError: Jinja Exception: "
        told += "System message must be at the beginning."
        refused = Refused(500, {"error": {"code": 500, "message": told, "type": "server_error"}})
        return refused if is_late_system(body) else None


class Alternating(StandIn):
    """Mistral's chat template: what is neither a result nor a call is by turns the user's and the assistant's."""

    told = "After the optional system message, conversation roles must alternate user/assistant/user/assistant/..."

    def refuse(self, api: str, body: Body) -> Refused | None:
        turns = [one["role"] for one in items(body) if one["role"] != "tool" and not one.get("tool_calls")]
        turns = turns[1:] if turns[0] == "system" else turns
        wrong = [role for n, role in enumerate(turns) if (role == "user") != (n % 2 == 0)]
        return error(400, self.told, type="BadRequestError", code=400) if wrong else None


class MessageOrder(StandIn):
    """Mistral's own address: which role may follow which."""

    def refuse(self, api: str, body: Body) -> Refused | None:
        roles = [one["role"] for one in items(body)]
        for before, role in pairwise(roles):
            if role == "system" or (before, role) == ("tool", "user"):
                told = f"Unexpected role '{role}' after role '{before}'"
                return Refused(400, {"object": "error", "message": told, "type": "invalid_request_message_order",
                                     "param": None, "code": "3230"})  # fmt: skip
        return None


class NoSystem(StandIn):
    """Gemma's chat template: the user and the model by turns, and nobody else."""

    def refuse(self, api: str, body: Body) -> Refused | None:
        roles = [one["role"] for one in items(body)]
        told = "System role not supported"
        if "system" not in roles:
            told = "Conversation roles must alternate user/assistant/user/assistant/..."
            if all((role == "user") == (n % 2 == 0) for n, role in enumerate(roles)):
                return None
        return Refused(400, {"object": "error", "message": told, "type": "BadRequestError", "param": None, "code": 400})


TEMPLATES: dict[str, Callable[[Model], StandIn]] = {
    "first_system": FirstSystem,
    "first_system_or_broken": FirstSystemOrBroken,
    "alternating": Alternating,
    "message_order": MessageOrder,
    "no_system": NoSystem,
}
"""What chat templates do not take."""


BEHAVIOURS: dict[str, Callable[[Model], StandIn]] = {
    "only_responses": OnlyResponses,
    "paired": Paired,
    "no_include": NoInclude,
    "thinking": Thinking,
    "signed": Signed,
    "other_key": OtherKey,
    "relay": Relay,
    "wrapped": Wrapped,
    "stream_only": StreamOnly,
    "cut": Cut,
    "filtered": Filtered,
    "used_up": UsedUp,
    "no_tools": NoTools,
    "no_responses": NoResponses,
    "empty": Empty,
    "bad_schema": BadSchema,
}


def _refusal(refused: Refused) -> web.Response:
    headers = {"x-should-retry": "false"} if refused.status >= 500 else {}  # the scripted model's own: it is away
    if isinstance(refused.body, bytes):
        return web.Response(status=refused.status, body=refused.body, content_type="text/html", headers=headers)
    return web.json_response(refused.body, status=refused.status, headers=headers)


async def _streamed(request: web.Request, answer: Body) -> web.StreamResponse:
    """A completion in pieces, with a comment before each."""
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
    await response.prepare(request)
    choice = answer["choices"][0]
    message, calls = choice["message"], choice["message"].get("tool_calls", ())
    text, pieces = message.get("content") or "", list[Body]()
    pieces += [{"content": text[at : at + 7]} for at in range(0, len(text), 7)]
    for n, call in enumerate(calls):
        function = call["function"]
        begin = {"name": function["name"], "arguments": ""}
        pieces.append({"tool_calls": [{"index": n, "id": call["id"], "type": "function", "function": begin}]})
        written = function["arguments"]
        parts = [written[at : at + 9] for at in range(0, len(written), 9)]
        pieces += [{"tool_calls": [{"index": n, "function": {"arguments": one}}]} for one in parts]
    pieces += [{"refusal": message["refusal"]}] if message.get("refusal") else []
    events = [{"choices": [{"index": 0, "delta": one, "finish_reason": None}]} for one in pieces]
    events.append({"choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]})
    events.append({"choices": [], "usage": answer["usage"]})
    for event in events:
        await response.write(f": keep-alive\n\ndata: {json.dumps(event, ensure_ascii=False)}\n\n".encode())
    await response.write(b"data: [DONE]\n\n")
    return response


@asynccontextmanager
async def standing_in(behaviour: str, model: Model) -> AsyncIterator[StandIn]:
    """One of them, listening on loopback over a model."""
    serving = (BEHAVIOURS | TEMPLATES)[behaviour](model)
    app = web.Application(client_max_size=16 * 1024 * 1024)
    app.add_routes([web.post("/v1/chat/completions", serving.complete), web.post("/v1/responses", serving.respond)])
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    serving.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    try:
        yield serving
    finally:
        await asyncio.shield(runner.cleanup())


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
