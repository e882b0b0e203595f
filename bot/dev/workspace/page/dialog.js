/* The dialog a bot opened in front of a person (Slack's modal). */

import { attempt, press } from "./act.js";
import { post } from "./api.js";
import { block } from "./blocks.js";
import { button, h, iconButton, reconcile } from "./dom.js";
import { words } from "./emoji.js";
import { complain, complainMissing } from "./inputs.js";
import { look, model, on, refresh } from "./model.js";
import { t } from "./words.js";

const frame = document.getElementById("modal");
const kept = new Map();
let shown = { id: null, print: "", face: "" };
let leaving = false;

/** Shows, redraws or closes the dialog, after what the server says is open. Of one that is open already only what has
 * changed is drawn anew, so that nobody is interrupted in a field. */
function draw() {
  const view = model.view;
  const stamp = view ? JSON.stringify([view, model.spoken]) : "";
  if (stamp === shown.print) return;
  const face = view && JSON.stringify([view.id, view.title, view.submit, view.close, model.spoken]);
  const same = face && face === shown.face;
  if (!same && shown.id) kept.set(shown.id, read());
  shown = { id: view?.id ?? null, print: stamp, face };
  if (!view) {
    kept.clear();
    frame.close();
    return;
  }
  if (same) {
    reconcile(frame.querySelector(".fields-of-form"), rows(view, read()));
    return;
  }
  frame.replaceChildren(form(view, kept.get(view.id) ?? {}));
  if (!frame.open) frame.showModal();
  frame.querySelector(".input :is(input, textarea, select)")?.focus();
}

/** Rows for `reconcile`. */
function rows(view, values) {
  const env = {
    look,
    values,
    press: (action, control) => press({ view_id: view.id, values: read() }, action, control),
    change: (action) => change(view, action),
  };
  return (view.blocks ?? []).map((one) => ({ key: one.block_id, print: print(one), make: () => block(one, env) }));
}

/** What an input starts with counts when it is drawn first; then what its person has put in. */
const print = (one) => JSON.stringify(one, (name, value) => (one.type === "input" && name.startsWith("initial_") ? undefined : value));

/** The bot hears that a field has changed, and of all others with it. */
async function change(view, action) {
  await attempt(() => post("click", { person: model.person, view_id: view.id, ...action, values: read() }));
  await refresh.view();
}

function form(view, values) {
  const fields = h("div", { class: "fields-of-form" });
  reconcile(fields, rows(view, values));
  const node = h(
    "form",
    { novalidate: true, "aria-labelledby": "modal-title" },
    h(
      "header",
      {},
      h("h2", { id: "modal-title", dir: "auto" }, words(view.title)),
      iconButton("close", t("close"), leave),
    ),
    fields,
    h(
      "footer",
      {},
      button("button", leave, {}, h("span", {}, words(view.close) || t("cancel"))),
      view.submit && h("button", { type: "submit", class: "button primary" }, h("span", {}, words(view.submit))),
    ),
  );
  node.addEventListener("submit", (event) => {
    event.preventDefault();
    submit(view);
  });
  return node;
}

const inputs = () => [...frame.querySelectorAll(".input")];

/** {block_id: {action_id: state}}, as Slack reports it. */
function read() {
  const values = {};
  for (const field of inputs()) (values[field.dataset.block] ??= {})[field.dataset.action] = field.read();
  return values;
}

async function submit(view) {
  const sender = frame.querySelector("[type=submit]");
  if (complainMissing(inputs()) || sender.getAttribute("aria-busy")) return;
  sender.setAttribute("aria-busy", "true");
  await attempt(async () => {
    const { errors } = await post("submit", { person: model.person, view_id: view.id, values: read() });
    complain(inputs(), errors ?? {});
  });
  sender.removeAttribute("aria-busy");
  await Promise.all([refresh.view(), refresh.messages()]);
}

async function leave() {
  const view = model.view;
  if (!view || leaving) return;
  leaving = true;
  await attempt(() => post("close", { person: model.person, view_id: view.id }));
  await refresh.view();
  leaving = false;
}

// A browser lets a page hold a dialog open only once for each click of its person: a second Escape would close the
// frame at once, while the view is still open for the bot. So the key is taken here; a gesture ends in `cancel`.
frame.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || event.isComposing || event.defaultPrevented) return;
  event.preventDefault();
  leave();
});
frame.addEventListener("cancel", (event) => {
  event.preventDefault();
  leave();
});
on("view words", draw);
