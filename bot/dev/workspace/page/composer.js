/* Where people write: Enter sends, Shift+Enter breaks the line, `@` and `/` offer what can follow. */

import { say, shortcut } from "./act.js";
import { showChosen, uploadAll } from "./files.js";
import { avatar } from "./messages.js";
import { button, h, icon } from "./dom.js";
import { model } from "./model.js";
import { t } from "./words.js";

const drafts = new Map();
let count = 0;

/** A composer. `place()` gives {key, thread}; `sent()` is called after something went out. */
export function composer({ place, placeholder, sent }) {
  const id = `composer-${(count += 1)}`;
  const list = h("ul", { class: "offers", id: `${id}-offers`, role: "listbox", hidden: true });
  const field = h("textarea", {
    id,
    rows: 1,
    dir: "auto",
    role: "combobox",
    "aria-autocomplete": "list",
    "aria-expanded": "false",
    "aria-controls": list.id,
    autocomplete: "off",
  });
  const sender = h("button", { type: "submit", class: "send" }, icon("send"));
  const picker = h("input", { type: "file", multiple: true, hidden: true, tabindex: -1, "aria-hidden": "true" });
  const attach = button("attach quiet", () => picker.click(), {}, icon("clip"));
  const chosen = h("ul", { class: "chosen-files", hidden: true });
  const form = h("form", { class: "composer" }, list, chosen, attach, picker, field, sender);
  const files = [];
  const offers = offering(field, list);

  const show = () => {
    chosen.hidden = !files.length;
    form.classList.toggle("with-files", files.length > 0);
    showChosen(chosen, files, show);
  };
  const add = async (picked) => {
    if (!picked.length) return;
    attach.setAttribute("aria-busy", "true");
    files.push(...(await uploadAll([...picked])));
    attach.removeAttribute("aria-busy");
    show();
    field.focus();
  };

  const submit = async () => {
    const written = field.value.trim();
    if ((!written && !files.length) || form.getAttribute("aria-busy")) return;
    const { key, thread } = place();
    form.setAttribute("aria-busy", "true");
    field.value = "";
    drafts.delete(key);
    const sending = files.splice(0);
    show();
    const went = await say(written, thread, sending);
    if (!went) files.unshift(...sending);
    show();
    form.removeAttribute("aria-busy");
    if (went) sent();
    else if (!field.value && place().key === key) field.value = written;
    grow(field);
  };

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    submit();
  });
  picker.addEventListener("change", async () => {
    await add(picker.files);
    picker.value = "";
  });
  field.addEventListener("keydown", (event) => {
    if (event.isComposing || event.keyCode === 229 || offers.key(event)) return;
    if (event.key === "Enter" && !event.shiftKey) {
      event.preventDefault();
      submit();
    }
  });
  field.addEventListener("input", () => {
    drafts.set(place().key, field.value);
    grow(field);
    offers.look();
  });
  field.addEventListener("blur", offers.close);

  return {
    node: form,
    field,
    /** Another place or another language: its draft, its words. */
    refresh() {
      field.placeholder = placeholder();
      field.setAttribute("aria-label", placeholder());
      sender.setAttribute("aria-label", t("send"));
      sender.title = t("send_hint");
      attach.setAttribute("aria-label", t("attach"));
      attach.title = t("attach");
      const draft = drafts.get(place().key) ?? "";
      if (field.value === draft) return; // who is choosing from the offers goes on
      field.value = draft;
      grow(field);
      offers.close();
    },
  };
}

function grow(field) {
  field.rows = Math.min(8, field.value.split("\n").length);
}

const WORD = /(^|\s)([@/])([^\s@/]*)$/;

/** The list of people and commands over the field. */
function offering(field, list) {
  let options = [];
  let at = 0;

  const close = () => {
    options = [];
    list.hidden = true;
    field.setAttribute("aria-expanded", "false");
    field.removeAttribute("aria-activedescendant");
  };

  const mark = (next) => {
    at = (next + options.length) % options.length;
    for (const [place, node] of [...list.children].entries()) {
      node.setAttribute("aria-selected", String(place === at));
      if (place === at) field.setAttribute("aria-activedescendant", node.id);
    }
  };

  const take = (option) => {
    if (option.use) {
      field.value = field.value.replace(WORD, "$1");
      field.dispatchEvent(new Event("input"));
      close();
      option.use();
      return;
    }
    const head = field.value.slice(0, field.selectionStart).replace(WORD, `$1${option.insert} `);
    const tail = field.value.slice(field.selectionStart).replace(/^ /, "");
    field.value = head + tail;
    field.setSelectionRange(head.length, head.length);
    close();
    field.focus();
    field.dispatchEvent(new Event("input"));
  };

  const look = () => {
    const found = WORD.exec(field.value.slice(0, field.selectionStart));
    options = found ? candidates(found) : [];
    if (!options.length) return close();
    list.replaceChildren(...options.map((option, place) => line(option, `${list.id}-${place}`, take)));
    list.setAttribute("aria-label", t("suggestions"));
    list.hidden = false;
    field.setAttribute("aria-expanded", "true");
    return mark(0);
  };

  const key = (event) => {
    if (!options.length) return false;
    const moves = { ArrowDown: () => mark(at + 1), ArrowUp: () => mark(at - 1), Escape: close };
    const run = moves[event.key] ?? (["Enter", "Tab"].includes(event.key) && !event.shiftKey && (() => take(options[at])));
    if (!run) return false;
    event.preventDefault();
    event.stopPropagation();
    run();
    return true;
  };

  return { look, key, close };
}

function candidates([, before, sign, typed]) {
  const wanted = typed.toLowerCase();
  if (sign === "/") {
    if (before) return [];
    const commands = model.commands.filter((name) => name.startsWith(`/${wanted}`));
    const entries = model.shortcuts.filter((one) => !one.on_messages && one.name.toLowerCase().startsWith(wanted));
    return [
      ...commands.map((name) => ({ insert: name, name, note: t("command") })),
      ...entries.map((one) => ({ use: () => shortcut(one), name: one.name, note: t("shortcut") })),
    ];
  }
  const bot = { id: model.bot.id, name: model.bot.name, is_bot: true };
  const people = model.people.filter((person) => !person.is_bot && person.id !== model.person);
  return [bot, ...people]
    .filter(({ name, also, handle }) => [name, also, handle].some((known) => known?.toLowerCase().startsWith(wanted)))
    .map((person) => ({ insert: `@${person.name}`, name: person.name, person, note: person.is_bot ? t("app") : [person.also, person.title].filter(Boolean).join(" · ") }));
}

function line(option, id, take) {
  const press = (event) => {
    event.preventDefault();
    take(option);
  };
  return h(
    "li",
    { id, role: "option", onmousedown: press },
    option.person ? avatar(option.person) : h("span", { class: "avatar slash" }, "/"),
    h("b", {}, option.name),
    h("span", { class: "note" }, option.note ?? ""),
  );
}
