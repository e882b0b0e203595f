/* Feishu's cards (JSON 2.0) as nodes. What a card asks for is handed to `env.press`; nothing here talks to the server. */

import { button, h, icon } from "./dom.js";
import { complain, complainMissing, input, unknown } from "./inputs.js";
import { markdown } from "./markdown.js";
import { escape, mention } from "./mrkdwn.js";

/** reader and message → its card as JSON, and what was put into its fields: it stays while the card is not rewritten. */
const drafts = new Map();
/** Panels that somebody has opened or closed, by message and title. */
const panels = new Map();

/**
 * The card of a message. `env.look` finds people, `env.key` names reader and message; `env.press(action, control)` is
 * called for what is pressed or changed.
 */
export function card(given, env) {
  const print = JSON.stringify(given);
  if (drafts.get(env.key)?.print !== print) drafts.set(env.key, { print, values: {} });
  const { header, body } = given;
  return h(
    "div",
    { class: "card" },
    header && h("header", { class: "card-head", "data-tone": header.template }, h("h3", { dir: "auto" }, header.title?.content ?? "")),
    h("div", { class: "card-body" }, elements(body?.elements, { ...env, values: drafts.get(env.key).values })),
  );
}

const elements = (list, env) => (list ?? []).reduce((made, part) => [...made, element(part, env, made.at(-1))], []);

function element(part, env, before) {
  if (Object.hasOwn(FIELDS, part.tag)) return field(part, env, before);
  const make = Object.hasOwn(PARTS, part.tag) ? PARTS[part.tag] : ({ tag }) => unknown(tag);
  return make(part, env);
}

const prose = (content, part, look) =>
  h("div", { class: "prose", "data-size": part.text_size }, content && markdown(content, { ...look, tagged: true }));

const PARTS = {
  markdown: (part, { look }) => prose(part.content, part, look),
  div: ({ text }) => h("p", { class: "plain", dir: "auto", "data-size": text.text_size, "data-tone": text.text_color }, text.content),
  hr: () => h("hr"),
  column_set: ({ columns }, env) => h("div", { class: "columns" }, columns.map((one) => h("div", { class: "column" }, elements(one.elements, env)))),
  collapsible_panel({ header, expanded, elements: inside }, env) {
    const title = header?.title?.content ?? "";
    const key = `${env.key} ${title}`;
    const node = h("details", { class: "fold", open: panels.get(key) ?? expanded }, h("summary", { dir: "auto" }, icon("back"), h("span", {}, prose(title, {}, env.look))), h("div", { class: "folded-in" }, elements(inside, env)));
    node.addEventListener("toggle", () => panels.set(key, node.open));
    return node;
  },
  form({ name, elements: inside }, env) {
    const node = h("form", { class: "card-form", novalidate: true, "data-name": name });
    node.append(...elements(inside, { ...env, form: node }));
    node.addEventListener("submit", (event) => event.preventDefault());
    return node;
  },
  button(part, env) {
    const face = h("span", {}, part.text?.content ?? "");
    const look = { "data-size": part.size, title: part.hover_tips?.content, dataset: { action: part.name ?? part.text?.content ?? "" } };
    const press = async ({ currentTarget: control }) => {
      const form = part.form_action_type === "submit" ? submitted(env.form) : {};
      const wrong = form && (await env.press({ ...told(part), ...form }, control));
      if (wrong) complain(fieldsOf(env.form), wrong);
    };
    return button(`button ${style(part.type)}`, press, look, face);
  },
};

/** A plain text of Feishu, for the fields that the page has already. */
const words = (object) => ({ text: escape(object?.content ?? ""), emoji: false });

/** `primary_filled` → "primary filled", as the page's buttons are named. */
const style = (type) => (type ?? "default").replaceAll("_", " ");

const told = ({ name, behaviors }) => ({ name, value: behaviors?.[0]?.value });

const fieldsOf = (form) => [...form.querySelectorAll(".input")];

/** {form: {name: value}}; null while a field that must be filled in is empty. */
function submitted(form) {
  const fields = fieldsOf(form);
  return complainMissing(fields) ? null : { form: Object.fromEntries(fields.map((one) => [one.dataset.block, one.value()])) };
}

const options = (list, look) =>
  (list ?? look.people().map(({ id }) => ({ value: id }))).map(({ text, value }) => ({ value, text: text ? words(text) : { text: escape(look.person(value)?.name ?? value), emoji: false } }));
const chosen = (value) => (value ? { value } : undefined);

/** `initial_index` counts from 1. */
const one = ({ options: list, initial_option: value, initial_index: at }, look) => ({ type: "static_select", options: options(list, look), initial_option: chosen(value ?? list?.[at - 1]?.value) });
const many = (part, look) => ({ type: "checkboxes", options: options(part.options, look), initial_options: part.selected_values?.map(chosen) });

/** tag → [the field as the page has it, its value in Feishu's form, the name of that value if it is told at once]. */
const FIELDS = {
  input: [
    ({ input_type: type, max_length: most, default_value: value }) => ({ type: "plain_text_input", multiline: type === "multiline_text", max_length: most, initial_value: value }),
    ({ value }) => value ?? "",
  ],
  select_static: [one, ({ selected_option: option }) => option?.value ?? "", "option"],
  select_person: [one, ({ selected_option: option }) => option?.value ?? "", "option"],
  multi_select_static: [many, ({ selected_options: list }) => list.map(({ value }) => value), "options"],
  multi_select_person: [many, ({ selected_options: list }) => list.map(({ value }) => value), "options"],
  date_picker: [({ initial_date: date }) => ({ type: "datepicker", initial_date: date }), ({ selected_date: date }) => date ?? "", "option"],
  checker: [
    ({ checked, text }) => ({ type: "checkboxes", options: [{ value: "checked", text: words(text) }], initial_options: checked ? [{ value: "checked" }] : [] }),
    ({ selected_options: list }) => list.length > 0,
    "checked",
  ],
};

/** A field with the label that stands over it: its own, or the text before it. */
function field(part, env, before) {
  const [build, report, name] = FIELDS[part.tag];
  const id = part.name ?? part.tag;
  const optional = !part.required;
  const values = { [id]: { [id]: env.values[id] } };
  const node = input({ block_id: id, optional, label: words(part.label), element: { action_id: id, placeholder: words(part.placeholder), ...build(part, env.look) } }, { look: env.look, values });
  node.value = () => report(node.read());
  const label = node.querySelector(".label");
  if (!part.label) {
    label.classList.add("heard");
    label.textContent = part.text?.content ?? (before?.matches(".prose") ? before.textContent : (part.placeholder?.content ?? id));
  }
  node.addEventListener("input", () => {
    env.values[id] = node.read();
  });
  node.addEventListener("change", (event) => {
    env.values[id] = node.read();
    if (name && part.behaviors) env.press({ ...told(part), [name]: node.value() }, event.target);
  });
  return node;
}

/** A rich text (`post`) in the first of its languages. */
export function post(given, look) {
  const { title, content } = Object.values(given)[0] ?? {};
  const run = (part) => (part.tag === "at" ? mention(part.user_id, look, part.user_name) : (part.text ?? ""));
  return [title && h("h3", { dir: "auto" }, title), (content ?? []).map((line) => h("div", { class: "plain", dir: "auto" }, line.map(run)))];
}
