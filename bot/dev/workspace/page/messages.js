/* Messages: the list of a channel, and the thread beside it. */

import { press, shortcut, stop, tick } from "./act.js";
import { blocks } from "./blocks.js";
import { card, post } from "./card.js";
import { button, h, icon, iconButton } from "./dom.js";
import { emoji } from "./emoji.js";
import { files } from "./files.js";
import { look, model } from "./model.js";
import { gist, mention, mrkdwn, plain } from "./mrkdwn.js";
import { clock, day, dayName, full, millis, t } from "./words.js";

const TOGETHER_MS = 300_000;

export const isBot = (message) => Boolean(message.bot_id) || message.user === model.bot.id;

/** Who wrote a message, as far as the page knows. */
export function author(message) {
  if (isBot(message)) return { id: model.bot.id, name: model.bot.name ?? "Countersign", is_bot: true };
  return look.person(message.user) ?? { id: message.user, name: message.user ?? t("somebody") };
}

const isReply = (message) => message.thread_ts && message.thread_ts !== message.ts;

const dismissed = new Set();

/** Messages and private notices, oldest first. */
function everything() {
  const notices = model.private.filter(({ ts }) => !dismissed.has(ts)).map((notice) => ({ ...notice, bot_id: "B", private: true }));
  return [...model.messages, ...notices].sort((one, other) => (one.ts < other.ts ? -1 : 1));
}

/** What the middle of the page lists: everything outside threads. */
export const mainList = () => everything().filter((message) => !isReply(message));

/** The root of a thread and everything under it. */
export const threadList = (root) => everything().filter((message) => message.ts === root || message.thread_ts === root);

const replies = (root) => model.messages.filter((message) => isReply(message) && message.thread_ts === root);

/** What the bot is doing in a thread, with *Stop* while it is at work; null when there is nothing to say. */
export function activity(root) {
  const said = model.status.find(({ thread_ts }) => thread_ts === root)?.status ?? "";
  const busy = model.sessions.some((one) => one.thread_ts === root && one.status === "processing");
  if (!said && !busy) return null;
  const stopper = () => button("button stop", () => stop(root), {}, h("span", {}, t("stop")));
  const make = () => h("div", { class: "status", role: "status" }, h("span", {}, said || t("at_work")), busy && stopper());
  return row(`status-${root}`, `${said} ${busy}`, make);
}

/** What goes on in the threads of this place, oldest first. */
export const activities = () =>
  [...new Set([...model.status, ...model.sessions].map(({ thread_ts }) => thread_ts))].sort().map(activity).filter(Boolean);

/** The thread in which the bot spoke last, or undefined. */
export const liveliest = () => model.messages.findLast((message) => isBot(message) && isReply(message))?.thread_ts;

/** Rows for `reconcile`. `inThread` hides reply counts and puts a line under the root. */
export function rows(list, { inThread, open, redraw }) {
  const result = [];
  let before = null;
  for (const message of list) {
    const at = millis(message);
    const newDay = !before || day(millis(before)) !== day(at);
    if (newDay && !inThread) result.push(row(`day-${day(at)}`, dayName(at), () => separator(dayName(at), "day")));
    const close = !newDay && at - millis(before) < TOGETHER_MS;
    const compact = close && !(inThread && result.at(-1)?.rule) && together(before, message);
    const options = { compact, inThread, open, redraw, count: inThread ? [] : replies(message.ts) };
    result.push(row(`${message.private ? "p" : "m"}${message.ts}`, print(message, options), () => bubble(message, options)));
    if (inThread && list.length > 1 && message === list[0]) {
      const label = t("replies", { n: list.length - 1 });
      result.push({ ...row("rule", label, () => separator(label, "rule")), rule: true });
    }
    before = message;
  }
  return result;
}

const row = (key, print, make) => ({ key, print: `${print} ${model.spoken}`, make });

const together = (one, other) =>
  author(one).id === author(other).id && Boolean(one.private) === Boolean(other.private) && !replies(one.ts).length;

const print = (message, { compact, count }) =>
  JSON.stringify([message, compact, count.length, count.at(-1)?.ts, author(message).name, model.thread === message.ts]);

const separator = (label, kind) => h("div", { class: `separator ${kind}`, role: "separator" }, h("span", {}, label));

/** A round face: the first character of a name on a colour of their own; the bot carries its seal. */
export function avatar(person) {
  if (person.is_bot) return h("span", { class: "avatar bot", "aria-hidden": "true" });
  const place = model.people.findIndex(({ id }) => id === person.id);
  return h("span", { class: "avatar", "data-tint": (place + 6) % 6, "aria-hidden": "true" }, [...(person.name ?? "?")][0]);
}

function bubble(message, options) {
  const who = author(message);
  const at = millis(message);
  const time = h("time", { datetime: new Date(at).toISOString(), title: full(at) }, clock(at));
  const marks = {
    compact: options.compact,
    private: message.private,
    mine: message.user === model.person,
    current: !options.inThread && model.thread === message.ts,
  };
  return h(
    "article",
    { class: ["message", ...Object.keys(marks).filter((name) => marks[name])].join(" "), "aria-label": t("message_by", { name: who.name, time: clock(at) }), tabindex: -1, dataset: { ts: message.ts } },
    message.private && privateMark(message, options),
    h("div", { class: "gutter" }, options.compact ? time : avatar(who)),
    h(
      "div",
      { class: "body" },
      !options.compact && h("header", {}, h("b", {}, who.name), who.is_bot && h("span", { class: "badge" }, t("app")), time),
      content(message),
      files(message),
      reactions(message),
      shortcuts(message),
      !options.inThread && threadLink(message, options),
    ),
  );
}

function reactions({ reactions: list }) {
  const pill = ({ name, users }) => h("span", { class: "pill" }, emoji(name), users.length > 1 && ` ${users.length}`);
  return list?.length ? h("div", { class: "pills" }, list.map(pill)) : null;
}

/** The bot's entries in the menu of a message. */
function shortcuts(message) {
  const list = message.private ? [] : model.shortcuts.filter((one) => one.on_messages);
  const place = { channel: model.channel, ts: message.ts };
  const entry = (one) => button("quiet text", () => shortcut(one, place), {}, one.name);
  return list.length ? h("div", { class: "hover entries" }, list.map(entry)) : null;
}

function privateMark(notice, { redraw }) {
  const drop = () => {
    dismissed.add(notice.ts);
    redraw();
  };
  return h(
    "div",
    { class: "only-you" },
    icon("lock"),
    h("span", {}, t("only_you")),
    button("quiet text", drop, {}, t("dismiss")),
  );
}

/** Blocks where a message has its own, otherwise its text. */
function content(message) {
  const place = { channel: model.channel, ts: message.ts };
  const own = (message.blocks ?? []).length > 0 && (isBot(message) || !message.text);
  const env = { look, press: (action, control) => press(place, action, control), tick: (action) => tick(place, action) };
  if (own) return h("div", { class: "content" }, blocks(message.blocks, env));
  if (message.card) return h("div", { class: "content" }, card(message.card, { ...env, key: `${model.person} ${message.ts}` }));
  return h("div", { class: "content prose" }, message.post ? post(message.post, look) : message.mentions ? naming(message) : mrkdwn(message.text ?? "", look));
}

/** A text of Feishu, with the people whom it names. */
function naming({ text, mentions }) {
  const split = (part, { id, name }) => part.split(`@${name}`).flatMap((after, place) => (place ? [mention(id, look, name), after] : [after]));
  const parts = mentions.reduce((found, one) => found.flatMap((part) => (typeof part === "string" ? split(part, one) : part)), [text]);
  return h("p", { dir: "auto" }, parts.flatMap((part) => (typeof part === "string" ? plain(part) : part)));
}

function threadLink(message, { open, count }) {
  if (message.private) return null;
  if (!count.length) {
    return iconButton("thread", t("reply_in_thread"), () => open(message.ts, true), "quiet hover");
  }
  const faces = [...new Map(count.map((reply) => [author(reply).id, author(reply)])).values()].slice(0, 3);
  return button(
    "thread-link",
    () => open(message.ts, true),
    {},
    h("span", { class: "faces" }, faces.map(avatar)),
    h("b", {}, t("replies", { n: count.length })),
    h("span", { class: "last" }, gist(count.at(-1).text, look, 60)),
  );
}
