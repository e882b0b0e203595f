/* Short notices under the top bar, and what errors mean in words. */

import { button, h, icon, iconButton } from "./dom.js";
import { known, t } from "./words.js";

/** What a `Refused` means for the person in front of the page. */
export function problem(error) {
  return error.body.message ?? known(`error_${error.code}`) ?? t("error_other", { code: error.code });
}

/** Shows a notice in place of the one before; it stays until it is used or closed. Returns what closes it. `more` = {tone: "error", action: "label", run: function}. */
export function toast(sentence, more = {}) {
  const box = document.getElementById("toasts");
  const note = h("div", { class: `toast ${more.tone ?? ""}` }, more.tone === "error" && icon("warn"), h("p", {}, sentence));
  const away = () => note.remove();
  if (more.action) {
    const run = () => {
      away();
      more.run();
    };
    note.append(button("button", run, {}, more.action));
  }
  note.append(iconButton("close", t("dismiss"), away));
  box.replaceChildren(note);
  return away;
}

let said = "";

/** Tells screen readers, in their own time. */
export function announce(sentence) {
  said = sentence === said ? `${sentence}\u00a0` : sentence;
  document.getElementById("live").textContent = said;
}
