/* The live log: what the bot writes into its journal, as it happens. */

import { atEnd, button, h, icon, toEnd } from "./dom.js";
import { look, model, on } from "./model.js";
import { clockSeconds, t } from "./words.js";

const panel = document.getElementById("panel-log");
const MOST_SHOWN = 600;

const box = h("ol", { class: "lines", role: "log", "aria-live": "off", tabindex: 0 });
const filter = h("input", { type: "search", class: "control", autocomplete: "off", spellcheck: "false" });
const none = h("div", { class: "empty" });
const follow = button("button jump", undefined, { hidden: true });
panel.append(h("div", { class: "filter" }, filter), h("div", { class: "screen" }, box, follow, none));

/** The colour of a kind of line. */
const TONES = [
  [/error|fail|dead|unknown|lost|down/, "bad"],
  [/refus|reject|denied|forbidden|expire|warn|stop|retry|limit/, "warn"],
  [/request|await|card|wait|pause|propos|ask|open/, "ask"],
  [/approv|decision|decid|done|finish|final|answer|succe|commit/, "good"],
  [/effect|mail|tool|execut|click|press/, "act"],
  [/message|say|command|event/, "talk"],
];

const tone = (kind) => TONES.find(([pattern]) => pattern.test(kind))?.[1] ?? "calm";

const text = (line) => [line.kind, line.run, name(line.person), line.person, line.channel, line.text].join(" ").toLowerCase();
const name = (id) => (id ? (look.person(id)?.name ?? id) : "");
const wanted = (line) => filter.value.toLowerCase().split(/\s+/).every((word) => text(line).includes(word));

function row(line) {
  const run = line.run && button("run", () => only(line.run), { title: t("only_this_run") }, line.run);
  return h(
    "li",
    { "data-tone": tone(line.kind ?? "") },
    h("time", {}, clockSeconds(line.at_ms)),
    h("span", { class: "kind" }, line.kind),
    run,
    line.person && h("span", { class: "who" }, name(line.person)),
    h("span", { class: "what", dir: "auto" }, line.text),
  );
}

function only(run) {
  filter.value = filter.value === run ? "" : run;
  draw();
}

function draw() {
  box.replaceChildren(...model.lines.filter(wanted).slice(-MOST_SHOWN).map(row));
  words();
  shown();
}

function add() {
  const line = model.lines.at(-1);
  if (!wanted(line)) return;
  const stay = atEnd(box);
  box.append(row(line));
  if (box.children.length > MOST_SHOWN) box.firstElementChild.remove();
  none.hidden = true;
  if (stay) shown();
  else follow.hidden = false;
}

function words() {
  filter.placeholder = t("filter_log");
  filter.setAttribute("aria-label", t("filter_log"));
  box.setAttribute("aria-label", t("log"));
  follow.replaceChildren(icon("down"), t("newest"));
  none.replaceChildren(icon("log"), h("h3", {}, t(filter.value ? "nothing_found" : "no_log")), h("p", {}, t("no_log_why")));
  none.hidden = box.children.length > 0;
  follow.hidden = true;
}

/** The pane has just come into view. */
export const shown = () => toEnd(box);

filter.addEventListener("input", draw);
follow.addEventListener("click", () => {
  shown();
  follow.hidden = true;
});
box.addEventListener("scroll", () => {
  if (atEnd(box)) follow.hidden = true;
});
on("line", add);
on("words lines", draw);
