/* The page starts here: the middle, the thread, and what happens when something changes. */

import { attempt, choose, everyone, press, setLocale } from "./act.js";
import { post } from "./api.js";
import { blocks } from "./blocks.js";
import { composer } from "./composer.js";
import { atEnd, button, emptyPlace, fill, h, icon, iconButton, reconcile, toEnd } from "./dom.js";
import "./dialog.js";
import { pane, start, tab, visible } from "./frame.js";
import { activities, activity, author, isBot, liveliest, mainList, rows, threadList } from "./messages.js";
import { everything, follow, HOME, look, model, on, opened, refresh } from "./model.js";
import { gist } from "./mrkdwn.js";
import { announce } from "./toast.js";
import { t } from "./words.js";

const $ = (id) => document.getElementById(id);
const stream = $("stream");
const panel = $("panel-thread");
const threadStream = h("div", { class: "stream", tabindex: 0 }, h("div", { class: "list" }));
const prompts = h("div", { class: "chips prompts", role: "group", hidden: true });

let following = true; // the newest message stays in view, also while the stream is hidden
const keptAtEnd = () => (stream.clientHeight ? atEnd(stream) : following);

const isDirect = () => look.channel(model.channel)?.kind === "im";
const channelName = () => {
  const { kind, name } = look.channel(model.channel) ?? {};
  return isDirect() ? model.bot.name : `${kind === "mpim" || look.bare ? "" : "#"}${name ?? ""}`;
};

const main = composer({
  place: () => ({ key: `${model.person} ${model.channel}`, thread: null }),
  placeholder: () => t("write_to", { name: channelName() }),
  sent() {
    toEnd(stream);
    model.expecting = true;
  },
});
const side = composer({
  place: () => ({ key: `${model.person} ${model.channel} ${model.thread}`, thread: model.thread }),
  placeholder: () => t("write_in_thread"),
  sent: () => toEnd(threadStream),
});

/** The right side holds this thread from now on; nothing is drawn yet. */
function turnTo(root) {
  model.thread = root;
  threadStream.replaceChildren(h("div", { class: "list" }));
  side.refresh();
}

/** Opens a thread on the right; `asked` when a person wanted it, so that a narrow screen turns to it. */
function open(root, asked) {
  turnTo(root);
  if (asked) pane("thread");
  draw();
  toEnd(threadStream);
  if (asked && matchMedia("(min-width: 900px)").matches) side.field.focus();
}

function close() {
  const root = model.thread;
  model.thread = null;
  if (document.body.dataset.pane === "thread") pane("chat");
  draw();
  const origin = $("list").querySelector(`[data-ts="${CSS.escape(root)}"]`);
  (origin?.querySelector(".thread-link") ?? main.field).focus();
}

function draw() {
  const home = model.channel === HOME;
  $("home").hidden = !home;
  stream.hidden = home;
  $("write").hidden = home;
  if (!home) drawList();
  drawThread();
}

function drawList() {
  following = keptAtEnd() || model.fresh;
  const list = mainList();
  const items = rows(list, { inThread: false, open, redraw: draw });
  if (isDirect()) items.push(...activities()); // the answer will stand here
  if (!list.length) items.push({ key: "welcome", print: `${model.spoken} ${model.channel} ${model.person}`, make: welcome });
  reconcile($("list"), items);
  drawPrompts();
  if (following) toEnd(stream);
  $("jump").hidden = following || atEnd(stream);
}

/** What the bot suggests to write, above the field, until something is written. */
function drawPrompts() {
  const chip = (face, onclick) => button("chip", onclick, {}, face);
  const asked = model.prompts.map(({ title, message }) => chip(title, () => suggest(message)));
  const list = isDirect() ? [...asked, ...model.menu.map((entry) => chip(entry.name, () => use(entry)))] : [];
  prompts.hidden = !list.length;
  prompts.setAttribute("aria-label", t("prompts"));
  prompts.replaceChildren(...list);
}

function use(entry) {
  toEnd(stream); // where the card will stand
  choose(entry);
}

function welcome() {
  if (!isDirect()) return emptyPlace("hash", channelName(), t("channel_empty"));
  return emptyPlace("chat", t("welcome", { name: model.me.name }), t("welcome_how"), "empty welcome");
}

function suggest(text) {
  main.field.value = text;
  main.node.requestSubmit();
  main.field.focus();
}

function drawThread() {
  const root = model.thread;
  const list = root ? threadList(root) : [];
  if (!list.length) {
    fill(panel, emptyPlace("thread", t("no_thread"), t("no_thread_why")));
    return;
  }
  if (!panel.contains(threadStream)) {
    fill(panel, h("div", { class: "thread-head" }, h("span", { id: "thread-name" }), iconButton("close", t("close_thread"), close)), threadStream, side.node);
    side.refresh();
  }
  $("thread-name").textContent = t("thread_in", { name: channelName() });
  const stay = atEnd(threadStream);
  const items = rows(list, { inThread: true, open, redraw: draw });
  const status = activity(root);
  if (status) items.push(status);
  reconcile(threadStream.firstElementChild, items);
  if (stay) toEnd(threadStream);
}

/** New words from the bot: announced, read, and in a DM its thread opened, so that nobody has to hunt for the steps. */
function arrived() {
  if (!model.channel) return draw(); // nobody is anywhere until the page knows their channels
  const list = [...model.messages, ...model.private];
  const last = list.reduce((newest, { ts }) => (ts > newest ? ts : newest), "0");
  const fresh = model.fresh;
  const news = fresh ? [] : list.filter((message) => message.ts > model.lastTs && message.user !== model.person);
  model.fresh = false;
  model.lastTs = last;
  for (const message of news) announce(`${author(message).name}: ${gist(message.text, look)}`);
  if (model.channel !== HOME && !document.hidden && (news.length || fresh)) read();
  if (isDirect()) turnToThread(fresh, news);
  draw();
  if (news.length && !visible("panel-thread") && news.some((message) => message.thread_ts)) {
    document.body.toggleAttribute("data-new-thread", true);
  }
}

async function read() {
  await attempt(() => post("read", { person: model.person, channel: model.channel }));
  const here = look.channel(model.channel);
  if (here?.unread) refresh.state();
}

function turnToThread(fresh, news) {
  const busy = side.field.value !== "" || threadStream.contains(document.activeElement);
  const spoke = news.some((message) => (isBot(message) || !message.user) && message.thread_ts);
  if ((!fresh && !spoke) || (busy && model.thread)) return;
  const told = news.findLast((message) => model.private.includes(message) && message.thread_ts);
  const root = told?.thread_ts ?? liveliest();
  if (!root || root === model.thread) return;
  turnTo(root);
  setTimeout(() => toEnd(threadStream));
  const watching = ["log", "mail"].some((tab) => model.tab === tab && visible(`panel-${tab}`));
  const hasRoom = matchMedia("(min-width: 900px)").matches; // elsewhere the steps would stand in front of the answer
  if (hasRoom && model.expecting && document.body.dataset.pane !== "nav" && !watching) pane("thread");
  model.expecting = false;
}

function drawHome() {
  const env = { look, press: (action, control) => press({ view_id: model.home.id }, action, control) };
  const drawn = model.home && h("div", { class: "content" }, blocks(model.home.blocks, env));
  fill($("home"), drawn || emptyPlace("home", t("no_home"), t("no_home_why")));
}

function heading() {
  $("title").textContent = model.channel === HOME ? t("home") : channelName();
  $("topic").textContent = t(model.channel === HOME ? "topic_home" : isDirect() ? "topic_direct" : "topic_channel");
  document.title = `${$("title").textContent} · Countersign`;
  main.refresh();
  side.refresh();
}

function jump() {
  fill($("jump"), icon("down"), t("newest"));
  threadStream.setAttribute("aria-label", t("thread"));
  stream.setAttribute("aria-label", t("messages"));
}

async function begin() {
  $("write").append(prompts, main.node);
  start();
  on("words", jump);
  on("where words", heading);
  on("where words", draw);
  on("where", () => document.body.dataset.pane === "thread" && pane("chat")); // the thread was somewhere else
  on("messages", arrived);
  on("home words where", drawHome);
  $("jump").addEventListener("click", () => toEnd(stream));
  new ResizeObserver(() => following && toEnd(stream)).observe(stream);
  stream.addEventListener("scroll", () => {
    following = keptAtEnd();
    if (following) $("jump").hidden = true;
  });
  panel.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && model.thread && !event.isComposing) close();
  });
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && model.channel !== HOME && model.person) read();
  });
  model.fresh = true;
  await refresh.state();
  while (!model.me) {
    await new Promise((resume) => setTimeout(resume, 1_000));
    await refresh.state();
  }
  follow();
  // Nobody has written yet: everybody speaks the language of the reader, from the bot's first sentence on.
  if (model.untouched && !navigator.language.toLowerCase().startsWith("zh")) await setLocale("en", everyone());
  else await attempt(opened);
  await everything();
  heading();
  refresh.others();
  tab(model.tab);
  if (matchMedia("(min-width: 900px)").matches) main.field.focus();
}

begin();
