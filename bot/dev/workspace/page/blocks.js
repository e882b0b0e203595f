/* Slack's blocks as nodes. What a block asks for is handed to `press`; nothing here talks to the server. */

import { button, h, icon } from "./dom.js";
import { emojify, words } from "./emoji.js";
import { choice, input, option, select, unknown } from "./inputs.js";
import { markdown } from "./markdown.js";
import { mention, mrkdwn } from "./mrkdwn.js";
import { t, tokens } from "./words.js";

/** A text object: `plain_text` or `mrkdwn`. */
function text(object, look) {
  if (!object) return [];
  if (object.type === "mrkdwn") return mrkdwn(object.text ?? "", object.verbatim ? { ...look, verbatim: true } : look);
  return [h("p", { dir: "auto" }, words(object))];
}

/**
 * The blocks of a message, a dialog or the Home tab. `env.look` finds people and channels;
 * `env.press(action, control)` is called for every action, `env.tick(action)` for a changed tick; `env.values` holds what dialog fields start with, and
 * `env.change(action)` is called when a field of which the bot wants to hear has changed.
 */
export const blocks = (list, env) => (list ?? []).map((one) => block(one, env));

/** One block. */
export function block(given, env) {
  const make = Object.hasOwn(BLOCKS, given.type) ? BLOCKS[given.type] : ({ type }) => unknown(type);
  const node = make(given, env);
  node.classList.add("block");
  if (given.block_id) node.dataset.block = given.block_id;
  return node;
}

const BLOCKS = {
  section: ({ text: said, fields }, env) =>
    h("div", { class: "section prose" }, text(said, env.look), fields && h("div", { class: "fields" }, fields.map((field) => h("div", { class: "field" }, text(field, env.look))))),
  header: (block) => h("h3", { class: "header", dir: "auto" }, words(block.text)),
  divider: () => h("hr"),
  context: (block, env) => h("div", { class: "context" }, (block.elements ?? []).map((part) => h("div", { class: "prose" }, text(part, env.look)))),
  actions: (block, env) => h("div", { class: "actions" }, elements(block, env)),
  context_actions: (block, env) => h("div", {}, elements(block, env)),
  markdown: (block, env) => h("div", { class: "prose" }, markdown(block.text ?? "", env.look)),
  rich_text: (block, env) => h("div", { class: "prose" }, (block.elements ?? []).map((part) => rich(part, env.look))),
  plan: (block, env) =>
    h(
      "details",
      { class: "plan" },
      h("summary", { dir: "auto" }, block.title ?? ""),
      h("ol", {}, (block.tasks ?? []).map((task) => h("li", {}, taskCard(task, env)))),
    ),
  input,
};

/** One task: what was done, and under it why. */
const taskCard = ({ title, status, details }, env) => [
  h("span", { dir: "auto", class: `task ${status ?? ""}` }, title ?? ""),
  details && h("div", { class: "context prose" }, (details.elements ?? []).map((part) => rich(part, env.look))),
];

/** The elements of a block that act: buttons and selects. */
const elements = (block, env) =>
  block.elements.map((part) => (Object.hasOwn(ELEMENTS, part.type) ? ELEMENTS[part.type] : ({ type }) => unknown(type))(part, block, env));

const action = ({ action_id }, { block_id }, value) => ({ action_id, block_id, value });

const ELEMENTS = {
  button(part, block, env) {
    const press = (event) => env.press(action(part, block, part.value), event.currentTarget);
    const more = { "aria-label": part.accessibility_label, dataset: { action: part.action_id ?? "" } };
    return button(`button ${part.style ?? ""}`, press, more, h("span", {}, words(part.text)));
  },
  feedback_buttons(part, block, env) {
    const small = (one, face) => {
      const label = one.accessibility_label || words(one.text);
      const press = ({ currentTarget: pressed }) => {
        for (const other of pressed.parentElement.children) other.setAttribute("aria-pressed", String(other === pressed));
        env.press(action(part, block, one.value), pressed);
      };
      return button("quiet small", press, { "aria-label": label, title: label, "aria-pressed": "false" }, icon(face));
    };
    return h("span", { class: "pair" }, small(part.positive_button, "good"), small(part.negative_button, "bad"));
  },
  static_select: (part, block, env) => chooser(part, block, env, (part.options ?? []).map(option)),
  checkboxes(part, block, env) {
    const key = `${block.block_id} ${part.action_id}`;
    const chosen = ticked.get(key) ?? new Set((part.initial_options ?? []).map(({ value }) => value));
    const row = (given) =>
      choice(given, {
        checked: chosen.has(given.value),
        dataset: { action: `${part.action_id} ${given.value}` },
        onchange: ({ target }) => {
          if (target.checked) chosen.add(given.value);
          else chosen.delete(given.value);
          ticked.set(key, chosen);
          const known = part.options.map(({ value }) => value).filter((value) => chosen.has(value));
          env.tick?.(action(part, block, known));
        },
      });
    return h("div", { class: "choices", role: "group", "aria-label": t("choose") }, (part.options ?? []).map(row));
  },
  users_select: (part, block, env) =>
    chooser(part, block, env, env.look.people().map(({ id, name }) => ({ value: id, label: name }))),
};

/** What is ticked here, by block and action: it stays while the message is rewritten, as on Slack. */
const ticked = new Map();

function chooser(part, block, env, options) {
  const props = {
    class: "select",
    "aria-label": words(part.placeholder) || t("choose"),
    dataset: { action: part.action_id ?? "" },
    onchange: ({ target }) => env.press(action(part, block, target.value), target),
  };
  return select(part, props, options, part.initial_option?.value ?? part.initial_user, { disabled: true });
}

const rich = (part, look) => h("p", { dir: "auto" }, (part.elements ?? []).map((run) => richRun(run, look)));

function richRun(run, look) {
  if (run.type === "user") return mention(run.user_id, look);
  if (run.type === "date") return tokens(run.timestamp * 1000, run.format ?? "") ?? run.fallback ?? "";
  const said = emojify(run.text ?? "");
  return run.style?.strike ? h("s", {}, said) : said;
}
