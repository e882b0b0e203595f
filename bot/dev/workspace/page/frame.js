/* The frame around the talk: faces and languages on top, channels on the left, panes and the bar below. */

import { everyone, setLocale } from "./act.js";
import { button, fill, h, icon, rove } from "./dom.js";
import { avatar } from "./messages.js";
import { become, direct, go, HOME, keep, look, model, on } from "./model.js";
import { seen } from "./mailbox.js";
import { shown } from "./log.js";
import { toast } from "./toast.js";
import { apply, known, t } from "./words.js";

const $ = (id) => document.getElementById(id);
const body = document.body;

function faces() {
  const focused = document.activeElement?.dataset?.person;
  fill($("people"), look.people().map((person, place) => face(person, place + 1)));
  if (focused) $("people").querySelector(`[data-person="${CSS.escape(focused)}"]`)?.focus();
}

function face(person, number) {
  const me = person.id === model.person;
  const waiting = me ? 0 : (model.unread[person.id] ?? 0);
  const label = [person.name, person.title, waiting && t("unread", { n: waiting })].filter(Boolean).join(" · ");
  const named = { "aria-pressed": String(me), "aria-label": label, "aria-keyshortcuts": `Alt+${number}`, title: `${label} (Alt+${number})` };
  return button(
    "face",
    () => become(person.id),
    { ...named, dataset: { person: person.id } },
    avatar(person),
    me && h("span", { class: "name" }, person.name),
    waiting > 0 && h("span", { class: "count" }, String(waiting)),
  );
}

async function choose(lang) {
  if (lang === model.spoken || !(await setLocale(lang))) return;
  const run = () => setLocale(lang, everyone());
  toast(t("language_set", { name: model.me.name }), { action: t("for_everybody"), run });
}

/** The sign of a private channel and of a group DM. */
const MARKS = { group: "lock", mpim: "people" };

function channels() {
  const dm = direct();
  const shared = model.channels.filter((channel) => channel.kind !== "im");
  const focused = document.activeElement?.dataset?.channel;
  const behind = BAR.slice(3).map(([name, mark, label]) => entry(name, mark, t(label), 0, () => pane(name)));
  const group = (name) => h("span", { class: "avatar", "data-tint": [...name].length % 6, "aria-hidden": "true" }, icon("people"));
  const places = look.bare
    ? [
        h("div", { class: "rail" }, avatar(model.me), entry("chats", "chat", t("messages"), 0, () => pane("thread")), behind),
        h("h2", {}, t("messages")),
        dm && entry(dm.id, avatar({ is_bot: true }), [model.bot.name, h("span", { class: "badge" }, t("app"))], dm.unread),
        shared.map((channel) => entry(channel.id, group(channel.name), channel.name, channel.unread)),
      ]
    : [
        h("h2", {}, model.team.name ?? ""),
        h("h3", {}, t("app_section")),
        dm && entry(dm.id, "chat", model.bot.name, dm.unread),
        entry(HOME, "home", t("home"), 0),
        h("h3", {}, t("channels")),
        shared.map((channel) => entry(channel.id, MARKS[channel.kind] ?? "hash", channel.name, channel.unread)),
        h("h3", {}, t("behind")),
        behind,
      ];
  fill(
    $("nav"),
    places,
    model.models.slice(0, 1).map(({ name }) => button("honest", undefined, { popovertarget: "standins" }, t("offer_short", { name }))),
    h("p", { class: "honest" }, t("honest")),
  );
  if (focused) $("nav").querySelector(`[data-channel="${CSS.escape(focused)}"]`)?.focus();
}

async function visit(id) {
  await go(id);
  pane("chat");
}

function entry(id, mark, name, unread, to = () => visit(id)) {
  const here = model.channel === id;
  return button(
    "entry",
    to,
    { "aria-current": here ? "page" : undefined, dataset: { channel: id } },
    typeof mark === "string" ? icon(mark) : mark,
    h("span", {}, name),
    unread > 0 && !here && h("span", { class: "count", "aria-label": t("unread", { n: unread }) }, String(unread)),
  );
}

function standins() {
  fill(
    $("standins"),
    h("h2", {}, t("standins")),
    h("p", {}, t("standins_why")),
    h("dl", {}, model.standins.map(({ name, note }) => [
      h("dt", {}, known(`standin_${name}`) ?? name), // in words where the page has them
      h("dd", {}, known(`standin_${name}_note`) ?? note),
    ])),
    model.models.map(({ key, name, command }) => [h("p", {}, t(key, { name })), h("pre", {}, command)]),
  );
}

const BAR = [["nav", "list", "channels_short"], ["chat", "chat", "chat"], ["thread", "thread", "thread"], ["mail", "mail", "mailbox"], ["log", "log", "log"]];

function bar() {
  fill(
    $("bar"),
    BAR.map(([name, mark, label]) => {
      const more = { dataset: { pane: name }, "aria-current": body.dataset.pane === name ? "page" : undefined };
      return button("", () => pane(name), more, icon(mark), h("span", {}, t(label)), h("i", { class: "dot", "aria-hidden": "true" }));
    }),
  );
}

/** On a narrow screen one pane fills it: `nav`, `chat`, `thread`, `mail` or `log`. On a wide one the side follows. */
export function pane(name) {
  body.dataset.pane = name;
  if (["thread", "mail", "log"].includes(name)) tab(name);
  for (const one of $("bar").children) one.ariaCurrent = one.dataset.pane === name ? "page" : null;
}

/** Turns the right side to one of its tabs. */
export function tab(name) {
  if (model.tab === "mail" && name !== "mail") seen();
  model.tab = name;
  keep();
  for (const one of $("tabs").children) {
    const chosen = one.dataset.tab === name;
    one.setAttribute("aria-selected", String(chosen));
    one.tabIndex = chosen ? 0 : -1;
    $(`panel-${one.dataset.tab}`).hidden = !chosen;
  }
  if (name === "thread") body.removeAttribute("data-new-thread");
  if (name === "log") shown();
}

/** True when this pane can be seen now. */
export const visible = (id) => $(id).checkVisibility();

function keys(event) {
  const digit = /^Digit([1-9])$/.exec(event.code)?.[1];
  if (event.altKey && !event.ctrlKey && !event.metaKey && digit && !document.querySelector("dialog[open]")) {
    const person = look.people()[digit - 1];
    if (!person) return;
    event.preventDefault();
    become(person.id);
  }
}

export function start() {
  document.addEventListener("keydown", keys);
  rove($("tabs"), "[role=tab]");
  rove($("people"), "button");
  rove($("nav"), ".entry");
  for (const one of $("tabs").children) one.addEventListener("click", () => pane(one.dataset.tab));
  for (const one of $("languages").children) one.addEventListener("click", () => choose(one.dataset.language));
  tab(model.tab);
}

on("state unread words", faces);
on("state where words", channels);
on("state words", standins);
on("words", () => {
  apply(document);
  for (const one of $("languages").children) one.ariaPressed = String(one.dataset.language === model.spoken);
  bar();
});
on("connection", () => {
  $("banner").textContent = model.connected ? "" : t("connection_lost");
});
