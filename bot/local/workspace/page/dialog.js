/* The dialog a bot opened in front of a person (Slack's modal). */

import { attempt, press } from "./act.js";
import { post } from "./api.js";
import { blocks } from "./blocks.js";
import { h, icon } from "./dom.js";
import { words } from "./emoji.js";
import { blank } from "./inputs.js";
import { look, model, on, refresh } from "./model.js";
import { t } from "./words.js";

const frame = document.getElementById("modal");
let shown = { id: null, print: "" };

/** Shows, redraws or closes the dialog, after what the server says is open. */
function draw() {
  const view = model.view;
  const stamp = view ? JSON.stringify([view, model.spoken]) : "";
  if (stamp === shown.print) return;
  const values = view && view.id === shown.id ? read() : {};
  shown = { id: view?.id ?? null, print: stamp };
  if (!view) {
    frame.close();
    return;
  }
  frame.replaceChildren(form(view, values));
  if (!frame.open) frame.showModal();
  (frame.querySelector("[autofocus]") ?? frame.querySelector(".input :is(input, textarea, select)"))?.focus();
}

function form(view, values) {
  const env = { look, values, press: (action, control) => press({ view_id: view.id }, action, control) };
  const node = h(
    "form",
    { novalidate: true, "aria-labelledby": "modal-title" },
    h(
      "header",
      {},
      h("h2", { id: "modal-title", dir: "auto" }, words(view.title)),
      h("button", { type: "button", class: "quiet", "aria-label": t("close"), title: t("close"), onclick: leave }, icon("close")),
    ),
    h("div", { class: "fields-of-form" }, blocks(view.blocks, env)),
    h(
      "footer",
      {},
      h("button", { type: "button", class: "button", onclick: leave }, h("span", {}, words(view.close) || t("cancel"))),
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
  const missing = inputs().filter((field) => field.required && blank(field.read()));
  complain(Object.fromEntries(missing.map((field) => [field.dataset.block, t("required")])));
  const button = frame.querySelector("[type=submit]");
  if (missing.length || button.getAttribute("aria-busy")) return;
  button.setAttribute("aria-busy", "true");
  await attempt(async () => {
    const { errors } = await post("submit", { person: model.person, view_id: view.id, values: read() });
    complain(errors ?? {});
  });
  button.removeAttribute("aria-busy");
  await Promise.all([refresh.view(), refresh.messages()]);
}

/** Puts every complaint under its field and goes to the first. */
function complain(errors) {
  let first = null;
  for (const field of inputs()) {
    const wrong = errors[field.dataset.block] ?? "";
    field.classList.toggle("wrong", Boolean(wrong));
    field.querySelector(".error").textContent = wrong;
    const control = field.querySelector("input, textarea, select");
    control?.setAttribute("aria-invalid", String(Boolean(wrong)));
    if (wrong) first ??= control;
  }
  first?.focus();
}

async function leave() {
  const view = model.view;
  if (view) await attempt(() => post("close", { person: model.person, view_id: view.id }));
  await refresh.view();
}

frame.addEventListener("cancel", (event) => {
  event.preventDefault();
  leave();
});
on("view words", draw);
