/* Everything a person does that the bot hears of: pressing, submitting, saying. */

import { post, Refused } from "./api.js";
import { escape } from "./mrkdwn.js";
import { look, model, opened, refresh } from "./model.js";
import { problem, toast } from "./toast.js";
import { t } from "./words.js";

const SETTLE_MS = 1_200;
const TOAST_MS = 6_000; // an answer of Feishu that is no error goes by itself
const HEARD_MS = 2_500; // the bot looks people up every two seconds

/** Does `work`; what the server refuses becomes a notice. True when it worked. */
export async function attempt(work) {
  try {
    await work();
    return true;
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    toast(problem(error), { tone: "error" });
    return false;
  }
}

/**
 * Presses a button (or picks from a menu) of a message, dialog or Home tab. The control stays pressed until the bot
 * has answered, and a moment longer while its answer is being drawn, so that nobody presses twice out of doubt. Returns
 * what is wrong with the fields of a card's form, if anything is.
 */
export async function press(place, action, control) {
  if (control.getAttribute("aria-busy")) return;
  const siblings = [...(control.closest(".actions, .card") ?? control.parentElement).querySelectorAll("button, select")];
  await ticking;
  control.setAttribute("aria-busy", "true");
  for (const sibling of siblings) sibling.setAttribute("aria-disabled", "true");
  let answer = {};
  const went = await attempt(async () => {
    answer = await post("click", { person: model.person, ...place, ...action });
    const away = answer.toast && toast(answer.toast.content, { tone: answer.toast.type });
    if (away && answer.toast.type !== "error") setTimeout(away, TOAST_MS);
  });
  await Promise.all([refresh.messages(), refresh.view(), refresh.home()]);
  setTimeout(
    () => {
      control.removeAttribute("aria-busy");
      for (const sibling of siblings) sibling.removeAttribute("aria-disabled");
    },
    went ? SETTLE_MS : 0,
  );
  return answer.errors;
}

let ticking = Promise.resolve();

/** A changed tick of a message: told one after the other, and before the next press. Nothing waits for it. */
export function tick(place, { action_id, block_id, value }) {
  const tell = () => attempt(() => post("click", { person: model.person, ...place, action_id, block_id, value }));
  ticking = ticking.then(tell).then(() => refresh.messages());
}

/** What a client sends: `@Name` as a real mention, everything else escaped. Feishu's takes handles, and escapes nothing. */
function encode(written) {
  const sign = look.bare ? (id) => `@${look.person(id)?.handle ?? id}` : (id) => `<@${id}>`;
  const plain = look.bare ? (text) => text : escape;
  const names = [...model.people, model.bot]
    .flatMap(({ id, name, also, handle }) => [name, also, handle].map((known) => [known, id]))
    .filter(([name]) => name)
    .sort(([one], [other]) => other.length - one.length);
  let text = plain(written);
  for (const [name, id] of names) text = text.replaceAll(`@${plain(name)}`, sign(id));
  return text;
}

/** Says something, with files or without, or runs a slash command. True when it arrived. */
export function say(written, thread, files = []) {
  const { person, channel } = model;
  const [head] = written.split(/\s/, 1);
  if (model.commands.length && /^\/[a-z_-]+$/.test(head)) {
    if (!model.commands.includes(head)) {
      toast(t("unknown_command", { command: head }), { tone: "error" });
      return false;
    }
    return attempt(() => post("slash", { person, channel, command: head, text: encode(written).slice(head.length).trim() }));
  }
  return attempt(async () => {
    const sent = files.length ? { files: files.map(({ id }) => id) } : {};
    await post("say", { person, channel, text: encode(written), ...(thread ? { thread_ts: thread } : {}), ...sent });
    await refresh.messages();
  });
}

/** Uses an entry that the bot has in the menu of the composer, or of a message (`place`). */
export const shortcut = ({ callback_id }, place = {}) =>
  attempt(async () => {
    await post("shortcut", { person: model.person, callback_id, ...place });
    await Promise.all([refresh.view(), refresh.messages()]);
  });

/** Chooses an entry of the bot's menu. */
export const choose = ({ key }) => attempt(() => post("menu", { person: model.person, key }));

/** Presses the *Stop* of a session; the bot itself says when it has stopped. */
export const stop = (thread) =>
  attempt(async () => {
    await post("stop", { person: model.person, channel: model.channel, thread_ts: thread });
    await refresh.messages();
  });

/** Sets the language in which the bot and this page speak to people. */
export function setLocale(lang, people = [model.person]) {
  const locale = lang === "zh" ? "zh-CN" : "en-US";
  return attempt(async () => {
    for (const person of people) await post("locale", { person, locale });
    await refresh.state();
    setTimeout(() => attempt(opened), HEARD_MS); // Home and suggestions, in this language
  });
}

export const everyone = () => look.people().map(({ id }) => id);
