/* Feishu's cards (JSON 2.0) as nodes. What a card asks for is handed to `env.press`; nothing here talks to the server. */

import { h, icon } from "./dom.js";
import { blank, complain, input } from "./inputs.js";
import { markdown } from "./markdown.js";
import { escape, link, mention } from "./mrkdwn.js";
import { t } from "./words.js";

/** reader and message → its card as JSON, and what was put into its fields: it stays while the card is not rewritten. */
const drafts = new Map();
/** Panels that somebody has opened or closed, by message and title. */
const panels = new Map();

/**
 * The card of a message. `env.look` finds people, `env.face(person)` draws them, `env.key` names reader and message;
 * `env.press(action, control)` is called for what is pressed or changed, `env.picture(key)` is the address of one.
 */
export function card(given, env) {
  const print = JSON.stringify(given);
  if (drafts.get(env.key)?.print !== print) drafts.set(env.key, { print, values: {} });
  const { header, body, config } = given;
  return h(
    "div",
    { class: "card", "data-width": config?.width_mode },
    header && head(header),
    h("div", { class: "card-body" }, elements(body?.elements, { ...env, values: drafts.get(env.key).values })),
  );
}

function head({ title, subtitle, template, text_tag_list: tags }) {
  return h(
    "header",
    { class: "card-head", "data-tone": template },
    h("h3", { dir: "auto" }, title?.content ?? "", tags?.map(({ text, color }) => h("span", { class: "tag", "data-tone": color }, text?.content ?? ""))),
    subtitle?.content && h("p", { dir: "auto" }, subtitle.content),
  );
}

const elements = (list, env) => (list ?? []).reduce((made, part) => [...made, element(part, env, made.at(-1))], []);

function element(part, env, before) {
  if (Object.hasOwn(FIELDS, part.tag)) return field(part, env, before);
  const make = Object.hasOwn(PARTS, part.tag) ? PARTS[part.tag] : unknown;
  return make(part, env);
}

const unknown = ({ tag }) => h("p", { class: "unknown" }, icon("info"), t("unknown_block", { type: String(tag) }));

const prose = (content, part, look) =>
  h("div", { class: "prose", "data-size": part.text_size, "data-align": part.text_align, "data-tone": part.text_color }, content && markdown(content, { ...look, tagged: true }));

const PARTS = {
  markdown: (part, { look }) => prose(part.content, part, look),
  div: ({ text, fields }, { look }) =>
    h("div", {}, [text, ...(fields ?? []).map((one) => one.text)].filter(Boolean).map((one) =>
      one.tag === "lark_md" ? prose(one.content, one, look) : h("p", { class: "plain", dir: "auto", "data-size": one.text_size, "data-tone": one.text_color }, one.content))),
  hr: () => h("hr"),
  column_set: ({ columns, flex_mode: flex, background_style: ground }, env) =>
    h("div", { class: "columns", "data-flex": flex, "data-ground": ground }, (columns ?? []).map((one) => column(one, env))),
  collapsible_panel({ header, expanded, elements: inside }, env) {
    const title = header?.title?.content ?? "";
    const key = `${env.key} ${title}`;
    const node = h("details", { class: "fold", open: panels.get(key) ?? expanded }, h("summary", { dir: "auto" }, icon("back"), h("span", {}, prose(title, {}, env.look))), h("div", { class: "folded-in" }, elements(inside, env)));
    node.addEventListener("toggle", () => panels.set(key, node.open));
    return node;
  },
  interactive_container: ({ elements: inside }, env) => h("div", { class: "columns" }, column({ elements: inside }, env)),
  person: (part, env) => people([part.user_id], part, env),
  person_list: (part, env) => people((part.persons ?? []).map(({ id }) => id), part, env),
  img: ({ img_key: key, alt, title }, env) =>
    h("img", { class: "card-img", src: env.picture(key), alt: alt?.content || title?.content || t("image") }),
  form({ name, elements: inside }, env) {
    const node = h("form", { class: "card-form", novalidate: true, "data-name": name });
    node.append(...elements(inside, { ...env, form: node }));
    node.addEventListener("submit", (event) => event.preventDefault());
    return node;
  },
  button,
};

function column({ elements: inside, width, weight, background_style: ground }, env) {
  const node = h("div", { class: "column", "data-width": width === "auto" || !width ? "auto" : undefined, "data-ground": ground }, elements(inside, env));
  if (width === "weighted") node.style.flexGrow = Number(weight) || 1;
  else if (/^\d+px$/.test(width)) node.style.flex = `0 1 ${width}`;
  return node;
}

const people = (ids, { show_avatar: face = true, show_name: name = true }, { look, face: draw }) =>
  h("div", { class: "persons" }, ids.map((id) => h("span", { class: "person" }, face && look.person(id) && draw(look.person(id)), name && h("span", {}, look.person(id)?.name ?? id))));

const question = (confirm) => confirm && { title: words(confirm.title), text: words(confirm.text) };

/** A plain text of Feishu, for the fields that the page has already. */
const words = (object) => ({ text: escape(object?.content ?? ""), emoji: false });

/** `primary_filled` → "primary filled", as the page's buttons are named. */
const style = (type) => (type ?? "default").replaceAll("_", " ");

function button(part, env) {
  const face = h("span", {}, part.text?.content ?? "");
  const look = { class: `button ${style(part.type)}`, "data-size": part.size, "data-width": part.width, title: part.hover_tips?.content };
  const away = part.behaviors?.find(({ type }) => type === "open_url");
  if (away && !part.disabled) return h("span", { ...look, class: `${look.class} link` }, link(away.default_url, face));
  const press = async ({ currentTarget: control }) => {
    const form = part.form_action_type === "submit" ? submitted(env.form) : {};
    const wrong = form && (await env.press({ ...told(part), ...form, confirm: question(part.confirm) }, control));
    if (wrong) complain(fieldsOf(env.form), wrong);
  };
  const disabled = part.disabled ? { disabled: true, title: part.disabled_tips?.content } : {};
  return h("button", { type: "button", ...look, ...disabled, dataset: { action: part.name ?? part.element_id ?? part.text?.content ?? "" }, onclick: press }, face);
}

const told = ({ name, behaviors }) => ({ name, value: behaviors?.find(({ type }) => type === "callback")?.value });

const fieldsOf = (form) => [...form.querySelectorAll(".input")];

/** {form: {name: value}}; null while a field that must be filled in is empty. */
function submitted(form) {
  const fields = fieldsOf(form);
  const missing = fields.filter((one) => one.required && blank(one.read()));
  complain(fields, Object.fromEntries(missing.map((one) => [one.dataset.block, t("required")])));
  return missing.length ? null : { form: Object.fromEntries(fields.map((one) => [one.dataset.block, one.value()])) };
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
  picker_time: [({ initial_time: time }) => ({ type: "timepicker", initial_time: time }), ({ selected_time: time }) => time ?? "", "option"],
  checker: [
    ({ checked, text }) => ({ type: "checkboxes", options: [{ value: "checked", text: words(text) }], initial_options: checked ? [{ value: "checked" }] : [] }),
    ({ selected_options: list }) => list.length > 0,
    "checked",
  ],
};

/** A field with the label that stands over it: its own, or the text before it. */
function field(part, env, before) {
  const [build, report, name] = FIELDS[part.tag];
  const id = part.name ?? part.element_id ?? part.tag;
  const optional = !part.required;
  const values = { [id]: { [id]: env.values[id] } };
  const node = input({ block_id: id, optional, label: words(part.label), element: { action_id: id, placeholder: words(part.placeholder), ...build(part, env.look) } }, { look: env.look, values });
  node.value = () => report(node.read());
  const label = node.querySelector(".label");
  if (!part.label) {
    label.classList.add("heard");
    label.textContent = part.text?.content ?? (before?.matches(".prose") ? before.textContent : (part.placeholder?.content ?? id));
  }
  if (part.disabled) for (const control of node.querySelectorAll("input, textarea, select")) control.disabled = true;
  node.addEventListener("input", () => {
    env.values[id] = node.read();
  });
  node.addEventListener("change", (event) => {
    env.values[id] = node.read();
    if (name && part.behaviors) env.press({ ...told(part), [name]: node.value(), confirm: question(part.confirm) }, event.target);
  });
  return node;
}

/** A rich text (`post`) in the first of its languages. */
export function post(given, look) {
  const { title, content } = Object.values(given)[0] ?? {};
  const run = (part) => {
    if (part.tag === "at") return mention(part.user_id, look, part.user_name);
    if (part.tag === "a") return link(part.href, part.text ?? part.href);
    return part.tag === "md" ? markdown(part.text ?? "", { ...look, tagged: true }) : (part.text ?? "");
  };
  return [title && h("h3", { dir: "auto" }, title), (content ?? []).map((line) => h("div", { class: "plain", dir: "auto" }, line.map(run)))];
}
