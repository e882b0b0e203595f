"""The local workspace as it speaks Feishu: Feishu's endpoints, its long connection and its signed callbacks, on the
state of `bot.dev.workspace` (people, rooms, messages, mailbox, log, page feed).

**Ids.** `U01ZHANG` of the demo is `ou_01zhang` here and `U02LI` is `ou_02li000`, `C01GENERAL` is `oc_01general`, the
chat between a person and the bot is `oc_p2p01zhang`, the bot is `ou_bot0000`. Message ids are `om_` and 32 hex digits
and rise with time.

**A message** in the state (`GET /local/messages`) has

- `ts`: the message id; `user`: the sender's open_id; `at_ms`: when it was sent;
- `msg_type`: `text`, `post`, `interactive`, `image` or `file`;
- `text`: the words that a list of messages shows, mentions as `@name`; for a card its `config.summary`;
- `card`: the stored card (JSON 2.0) of `interactive`; `post`: the object of `post`, `{"zh_cn": {"title", "content"}}`;
  in both, people stand as `<at id=ou_…></at>` (card) or `{"tag": "at", "user_id": "ou_…"}` (post);
- `mentions`: `[{"key": "@_user_1", "id": "ou_…", "name"}]`; `files`: `[{"id", "name", "size", "type": "image|file"}]`,
  whose bytes are at `/local/file/<id>?person=`;
- in a topic `thread_ts`, the root's message id; the root has `reply_count` besides; `parent_id` if it quotes a message;
- `reactions`: `[{"name": "Typing", "users": ["ou_…"]}]`. `Typing` of the bot is its sign of life.

`private` of the same answer lists ephemeral cards (`card`) and past toasts (`toast`, `text`) of this person.
`GET /local/state` says `"platform": "feishu"` and has `menu`, the entries of the bot's menu: `[{"key", "name"}]`;
`commands` and `shortcuts` are empty. `views` and `home` are null: forms and Home are cards in the chat with the bot.

**Acts of the page** (`POST /local/<act>`, JSON, each with `person`):

- `say` `{channel, text, thread_ts?, files?}`: `@name` typed becomes a mention;
- `click` `{channel, ts, value, form?, name?, option?, options?, checked?}`: `value` is the pressed element's own
  `behaviors[0].value`, unchanged; `name` its name, if it has one; `form` the values of the form around it, by name, if
  it is a submit (`form_action_type: "submit"`): text as text, a picker's person, date or option as text, several as a
  list; `option`, `options` and `checked` are what a select or a checker outside a form was changed to. An element with
  an empty required field in its form is not sent: `errors` has the field names;
- `menu` `{key}`; `open` (the chat with the bot was opened); `read` `{channel}`; `locale` `{locale}`.

`click` answers `{"ok": true, "toast": {"type": "info|success|warning|error", "content"}?}`; a new card has replaced the
old one by then (`messages` changed in the feed). If the app did not answer within 3 s or refused, it answers
`{"ok": false, "error": "no_answer" | "no_app", "message"}`, which Feishu shows as an error toast."""
