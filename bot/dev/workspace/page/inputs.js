/* The fields of dialogs. Every control carries `read()`, which gives its value the way Slack reports it. */

import { button, h, icon } from "./dom.js";
import { words } from "./emoji.js";
import { showChosen, uploadAll } from "./files.js";
import { t } from "./words.js";

let count = 0;

/** An `input` block: label, control, hint and a place for what is wrong with it. */
export function input(block, env) {
  const part = block.element ?? {};
  const id = `field-${(count += 1)}`;
  const make = Object.hasOwn(CONTROLS, part.type) ? CONTROLS[part.type] : strange;
  const kept = env.values?.[block.block_id]?.[part.action_id];
  const { node, read, group } = make(part, { id, kept, look: env.look });
  const label = [words(block.label), block.optional && h("span", { class: "optional" }, t("optional"))];
  node.setAttribute("aria-describedby", `${id}-hint ${id}-error`);
  if (!block.optional) node.setAttribute(group ? "data-required" : "aria-required", "true");
  const wrap = h(
    "div",
    { class: "input", dataset: { block: block.block_id, action: part.action_id } },
    group ? h("div", { class: "label", id: `${id}-label` }, label) : h("label", { class: "label", for: id }, label),
    node,
    h("p", { class: "error", id: `${id}-error`, role: "alert" }),
    h("p", { class: "hint", id: `${id}-hint` }, words(block.hint)),
  );
  wrap.read = () => ({ type: part.type, ...read() });
  wrap.required = !block.optional && part.type in CONTROLS;
  if (block.dispatch_action && env.change) dispatch(wrap, () => env.change({ block_id: block.block_id, action_id: part.action_id, value: wrap.read() }));
  return wrap;
}

const TYPED = "input[type=text], textarea";

/** The bot hears of a choice at once, and of what is typed when Enter is pressed, as on Slack. */
function dispatch(wrap, tell) {
  wrap.addEventListener("change", (event) => event.target.matches(TYPED) || tell());
  wrap.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.isComposing || event.shiftKey || !event.target.matches(TYPED)) return;
    event.preventDefault();
    tell();
  });
}

/** What this page does not draw is named, so that nobody mistakes a gap for an empty message. */
export const unknown = (type) => h("div", { class: "unknown" }, icon("info"), t("unknown_block", { type: String(type) }));

const strange = ({ type }) => ({ node: unknown(type), read: () => ({}), group: true });

function field(type, part, { id }, extra = {}) {
  return h(type === "textarea" ? "textarea" : "input", {
    id,
    class: "control",
    type: type === "textarea" ? undefined : type,
    placeholder: words(part.placeholder) || undefined,
    maxlength: part.max_length,
    dir: "auto",
    autocomplete: "off",
    ...extra,
  });
}

function typed(type, part, at, extra) {
  const control = field(type, part, at, extra);
  control.value = at.kept?.value ?? part.initial_value ?? "";
  return { node: control, read: () => ({ value: control.value || null }) };
}

export const option = ({ value, text }) => ({ value, label: words(text) });

/** A menu. `options` = [{value, label}]; `first` is about the words that ask to choose. */
export function select(part, props, options, chosen, first = {}) {
  const control = h(
    "select",
    props,
    h("option", { value: "", ...first }, words(part.placeholder) || t("choose")),
    options.map(({ value, label }) => h("option", { value }, label)),
  );
  control.value = chosen ?? "";
  return control;
}

const menu = (part, { id }, options, chosen) => select(part, { id, class: "control select" }, options, chosen);

function choices({ options, initial_options: initial }, { id, kept }) {
  const before = kept?.selected_options ?? initial ?? [];
  const marked = new Set(before.filter(Boolean).map(({ value }) => value));
  const rows = options.map((given) => choice(given, { name: id, checked: marked.has(given.value) }));
  const node = h("div", { class: "choices", role: "group", "aria-labelledby": `${id}-label` }, rows);
  return { node, group: true, picked: () => options.filter((_, place) => rows[place].control.checked) };
}

/** Files: each is uploaded when it is chosen, and can be taken off again. The form may be drawn anew while one is on its
 * way: the list is the same, and knows what shows it now. */
function files(part, { id, kept }) {
  const chosen = kept?.files ?? [];
  const most = part.max_files ?? 10;
  const control = h("input", { id, type: "file", multiple: most > 1, hidden: true, tabindex: -1 });
  const list = h("ul", { class: "chosen-files" });
  const attach = button("button", () => control.click(), {}, h("span", {}, t("attach")));
  const node = h("div", { class: "file-input", role: "group", "aria-labelledby": `${id}-label` }, attach, control, list);
  const changed = () => {
    chosen.show();
    control.dispatchEvent(new Event("change", { bubbles: true }));
  };
  control.addEventListener("change", async (event) => {
    if (!control.files?.length) return;
    event.stopImmediatePropagation();
    const picked = [...control.files].slice(0, most - chosen.length);
    node.setAttribute("aria-busy", "true");
    chosen.push(...(await uploadAll(picked)));
    control.value = "";
    node.removeAttribute("aria-busy");
    chosen.show();
  });
  chosen.show = () => showChosen(list, chosen, changed);
  chosen.show();
  return { node, group: true, read: () => ({ files: chosen }) };
}

const people = (look) =>
  look.people().map(({ id, name, title }) => ({ value: id, label: title ? `${name} · ${title}` : name }));

/** A box to tick, with the words and the description of its option. */
export const choice = (given, props) =>
  h(
    "label",
    { class: "choice" },
    h("input", { type: "checkbox", value: given.value, ...props }),
    h("span", { dir: "auto" }, words(given.text), given.description && h("small", {}, words(given.description))),
  );

const CONTROLS = {
  plain_text_input: (part, at) => typed(part.multiline ? "textarea" : "text", part, at, part.multiline ? { rows: 4 } : {}),
  number_input: (part, at) =>
    typed("text", part, at, { inputmode: part.is_decimal_allowed ? "decimal" : "numeric" }),
  datepicker(part, at) {
    const control = field("date", part, at);
    control.value = at.kept?.selected_date ?? part.initial_date ?? "";
    return { node: control, read: () => ({ selected_date: control.value || null }) };
  },
  static_select(part, at) {
    const control = menu(part, at, part.options.map(option), (at.kept?.selected_option ?? part.initial_option)?.value);
    return { node: control, read: () => ({ selected_option: part.options.find(({ value }) => value === control.value) ?? null }) };
  },
  users_select(part, at) {
    const control = menu(part, at, people(at.look), at.kept?.selected_user ?? part.initial_user);
    return { node: control, read: () => ({ selected_user: control.value || null }) };
  },
  multi_users_select(part, at) {
    const options = people(at.look).map(({ value, label }) => ({ value, text: { text: label } }));
    const before = (at.kept?.selected_users ?? part.initial_users ?? []).map((value) => ({ value }));
    const made = choices({ options, initial_options: before }, { ...at, kept: undefined });
    return { ...made, read: () => ({ selected_users: made.picked().map(({ value }) => value) }) };
  },
  file_input: files,
  checkboxes(part, at) {
    const made = choices(part, at);
    return { ...made, read: () => ({ selected_options: made.picked() }) };
  },
};

/** Puts every complaint under its field and goes to the first. */
export function complain(fields, errors) {
  let first = null;
  for (const field of fields) {
    const wrong = errors[field.dataset.block] ?? "";
    field.classList.toggle("wrong", Boolean(wrong));
    field.querySelector(".error").textContent = wrong;
    const control = field.querySelector("input, textarea, select");
    control?.setAttribute("aria-invalid", String(Boolean(wrong)));
    if (wrong) first ??= control;
  }
  first?.focus();
}

/** Complains of every field that must be filled in and is empty; true when there is one. */
export function complainMissing(fields) {
  const isBlank = ({ type: _type, ...values }) => Object.values(values).every((value) => !String(value ?? "").trim());
  const missing = fields.filter((field) => field.required && isBlank(field.read()));
  complain(fields, Object.fromEntries(missing.map((field) => [field.dataset.block, t("required")])));
  return missing.length > 0;
}
