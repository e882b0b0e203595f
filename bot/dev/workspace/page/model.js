/* What the page knows, and how it finds out. Views read `model` and listen for the names of what changed. */

import { coalesce, get, openFeed, post, Refused } from "./api.js";
import { load, setZone } from "./words.js";

const KEPT = "countersign";
const MOST_LINES = 2_000;

const kept = read();

export const model = {
  person: kept.person ?? null,
  channel: kept.channel ?? null,
  tab: kept.tab ?? "thread",
  spoken: null,
  platform: "slack",
  team: {},
  bot: {},
  me: null,
  people: [],
  channels: [],
  standins: [],
  models: [],
  commands: [],
  shortcuts: [],
  menu: [],
  messages: [],
  private: [],
  status: [],
  sessions: [],
  prompts: [],
  thread: null,
  view: null,
  home: null,
  mails: [],
  lines: [],
  unread: {},
  seenMail: kept.seenMail ?? 0,
  connected: true,
};

export const HOME = "home";

/** How renderers find people and channels. */
export const look = {
  person: (id) => model.people.find((person) => person.id === id),
  people: () => model.people.filter((person) => !person.is_bot),
  channel: (id) => model.channels.find((channel) => channel.id === id),
  get bare() {
    return model.platform === "feishu";
  },
  get me() {
    return model.me;
  },
};

const listeners = new Map();

/** Calls `listen` whenever one of `names` changed. */
export function on(names, listen) {
  for (const name of names.split(" ")) listeners.set(name, [...(listeners.get(name) ?? []), listen]);
}

function emit(name) {
  for (const listen of listeners.get(name) ?? []) listen();
}

function read() {
  try {
    return JSON.parse(localStorage.getItem(KEPT)) ?? {};
  } catch {
    return {};
  }
}

/** Remembers where this reader is, for the next visit. */
export function keep() {
  const { person, channel, tab, seenMail } = model;
  try {
    localStorage.setItem(KEPT, JSON.stringify({ person, channel, tab, seenMail }));
  } catch {
    return; // private windows may refuse; the page works without a memory
  }
}

const here = () => `${model.person} ${model.channel}`;

/** Wraps a fetch so that an answer for somebody or somewhere left meanwhile is thrown away. */
function current(fetching, take) {
  return coalesce(async () => {
    const before = here();
    let found;
    try {
      found = await fetching();
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      if (error.code === "offline" || error.code === "timeout") connected(false);
      return;
    }
    if (!model.person || before === here()) await take(found);
  });
}

function connected(is) {
  if (model.connected === is) return;
  model.connected = is;
  emit("connection");
}

const who = () => (model.person ? { person: model.person } : {});

/** A part of the model that is one field of the answer at `path`. */
const whole = (part, path, field) =>
  current(
    () => get(path, who()),
    (found) => {
      model[part] = found[field];
      emit(part);
    },
  );

export const refresh = {
  state: current(
    async () => {
      try {
        return await get("state", who());
      } catch (error) {
        if (error.code !== "user_not_found" || !model.person) throw error;
        model.person = null; // remembered from another demo world
        return get("state");
      }
    },
    async (state) => {
      state.people = state.people.map((one) => ({ ...one, name: one.display || one.name, handle: one.name }));
      Object.assign(model, state, { me: state.people.find(({ id }) => id === state.me.id) });
      model.person = model.me.id;
      document.documentElement.dataset.platform = model.platform;
      if ((model.channel !== HOME || look.bare) && !look.channel(model.channel)) model.channel = direct()?.id ?? null;
      setZone(model.me.tz);
      await speak(model.me.locale?.toLowerCase().startsWith("zh") ? "zh" : "en");
      keep();
      emit("state");
    },
  ),
  messages: current(
    () => (model.channel === HOME || !model.channel ? { messages: [], private: [] } : get("messages", { ...who(), channel: model.channel })),
    (found) => {
      model.messages = found.messages;
      model.private = found.private.filter(({ toast }) => !toast); // its person has seen it already
      Object.assign(model, { status: found.status ?? [], sessions: found.sessions ?? [] });
      model.prompts = found.prompts ?? [];
      emit("messages");
    },
  ),
  view: whole("view", "views", "view"),
  home: whole("home", "home", "view"),
  mails: whole("mails", "mail", "mails"),
  /** Unread counts of everybody else, for the dots on their faces. */
  others: coalesce(async () => {
    for (const { id } of look.people()) {
      if (id === model.person) continue;
      try {
        const { channels } = await get("state", { person: id });
        model.unread[id] = channels.reduce((sum, channel) => sum + (channel.kind === "im" ? channel.unread : 0), 0);
      } catch (error) {
        if (!(error instanceof Refused)) throw error;
        return;
      }
    }
    emit("unread");
  }),
};

export const direct = () => model.channels.find((channel) => channel.kind === "im");

async function speak(lang) {
  if (model.spoken === lang) return;
  await load(lang, model.platform);
  model.spoken = lang;
  emit("words");
}

export const everything = () => Promise.all(["state", "messages", "view", "home", "mails"].map((name) => refresh[name]()));

let closeFeed = null;

/** Opens the live feed of the current person, closing the one before. */
export function follow() {
  closeFeed?.();
  closeFeed = openFeed(model.person, {
    frame,
    up() {
      connected(true);
      model.lines = [];
      emit("lines");
      everything(); // also the first time: something may have come between the first look and this moment
    },
    down: () => connected(false),
  });
}

let later = null;

const CHANGED = { private: "messages", views: "view", mail: "mails", people: "state", channels: "state" };

function frame(data) {
  later ??= setTimeout(() => {
    later = null;
    refresh.others();
  }, 700);
  if (data.type === "log") {
    model.lines.push(data.line);
    model.lines.splice(0, model.lines.length - MOST_LINES);
    emit("line");
  } else if (data.what === "messages" && data.channel && data.channel !== model.channel) {
    if (look.channel(data.channel)) refresh.state();
  } else {
    refresh[CHANGED[data.what] ?? data.what]?.();
  }
}

/** Becomes another person, in their DM with the bot. */
export async function become(id) {
  const kind = model.channel === HOME ? HOME : look.channel(model.channel)?.kind;
  model.person = id;
  model.channel = kind && kind !== "im" ? model.channel : null; // where they are not, they are sent to their DM
  Object.assign(model, { thread: null, messages: [], private: [], view: null, home: null, fresh: true });
  model.unread[id] = 0;
  await refresh.state();
  emit("where");
  follow();
  await opened();
  await Promise.all([refresh.messages(), refresh.view(), refresh.home(), refresh.others()]);
}

/** Goes to a channel or to the Home tab. */
export async function go(channel) {
  Object.assign(model, { channel, thread: null, messages: [], private: [], fresh: true });
  keep();
  emit("where");
  await opened();
  await Promise.all([refresh.messages(), refresh.home()]);
}

/** Tells the bot that its Home tab or its DM is in front of somebody. */
export async function opened() {
  if (model.channel === HOME) await post("home", { person: model.person });
  else if (look.channel(model.channel)?.kind === "im") await post("open", { person: model.person });
}
