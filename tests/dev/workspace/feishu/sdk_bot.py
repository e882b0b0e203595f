"""A bot on the unmodified `lark-channel-sdk`, in a process of its own because the SDK blocks its loop.

`python sdk_bot.py DOMAIN APP_ID SECRET [answering|raising|silent]`. It answers a message with a card in the message's
topic, and a click with a toast and another card."""

import json
import queue
import sys
import threading
import time

import lark_channel as lark
from lark_channel.api.im.v1.model.reply_message_request import ReplyMessageRequest
from lark_channel.api.im.v1.model.reply_message_request_body import ReplyMessageRequestBody
from lark_channel.event.callback.model.p2_card_action_trigger import P2CardActionTriggerResponse
from lark_channel.ws.client import Client

domain, app_id, secret, mode = sys.argv[1:5]
client = lark.Client.builder().app_id(app_id).app_secret(secret).domain(domain).build()
heard = queue.Queue()


def build_button(label, value, **more):
    behaviors = [{"type": "callback", "value": value}]
    return {"tag": "button", "text": {"tag": "plain_text", "content": label}, "behaviors": behaviors, **more}


def build_card(text, *, decided=False):
    fields = [
        {"tag": "input", "name": "opinion", "required": True},
        build_button("Send", {"cs": "form"}, name="send", form_action_type="submit"),
    ]
    press = build_button("Approve", {"cs": "press", "choice": "approve"})
    open_elements = [] if decided else [press, {"tag": "form", "name": "reason", "elements": fields}]
    return {
        "schema": "2.0",
        "config": {"update_multi": True, "summary": {"content": text}},
        "body": {"elements": [{"tag": "markdown", "content": text}, *open_elements]},
    }


def answer_messages():
    while True:
        message = heard.get().message
        body = ReplyMessageRequestBody.builder().msg_type("interactive").uuid(message.message_id[-32:])
        body = body.content(json.dumps(build_card(f"heard {message.content}")))
        in_thread = message.chat_type == "group"
        request = ReplyMessageRequest.builder().message_id(message.message_id)
        client.im.v1.message.reply(request.request_body(body.reply_in_thread(in_thread).build()).build())


def on_message(data):
    if mode == "raising":
        raise RuntimeError("the handler fails")
    heard.put(data.event)


def on_click(data):
    if mode == "silent":
        time.sleep(5)
    action, who = data.event.action, data.event.operator.open_id
    said = f"{who} {action.value} {action.form_value}"
    card = {"type": "raw", "data": build_card(said, decided=True)}
    return P2CardActionTriggerResponse({"toast": {"type": "success", "content": "done"}, "card": card})


handler = (
    lark.EventDispatcherHandler.builder("", "")
    .register_p2_im_message_receive_v1(on_message)
    .register_p2_card_action_trigger(on_click)
    .build()
)
threading.Thread(target=answer_messages, daemon=True).start()
Client(app_id, secret, event_handler=handler, domain=domain).start()
