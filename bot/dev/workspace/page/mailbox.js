/* The mailbox: every mail the stand-in caught, newest first. */

import { button, emptyPlace, h, icon } from "./dom.js";
import { keep, look, model, on } from "./model.js";
import { full, t, when } from "./words.js";

const panel = document.getElementById("panel-mail");
const badge = document.getElementById("mail-count");
let reading = null;

const stamp = (mail) => Date.parse(mail.at);

/** An address as a name where the page knows one. */
function known(address) {
  const bare = /<([^>]+)>/.exec(address)?.[1] ?? address;
  return look.people().find(({ email }) => email && email === bare.trim()) ?? null;
}

const names = (to) => to.map((one) => known(one)?.name ?? one).join(", ");

function draw() {
  const fresh = model.mails.filter((mail) => stamp(mail) > model.seenMail).length;
  badge.textContent = fresh ? String(fresh) : "";
  document.body.toggleAttribute("data-new-mail", fresh > 0);
  const mail = model.mails.find(({ id }) => id === reading);
  const list = () => (model.mails.length ? shelf() : emptyPlace("mail", t("no_mail"), t("no_mail_why")));
  panel.replaceChildren(mail ? letter(mail) : list());
}

function shelf() {
  const newest = [...model.mails].sort((one, other) => stamp(other) - stamp(one));
  return h("ul", { class: "mails" }, newest.map(envelope));
}

function envelope(mail) {
  const open = () => {
    reading = mail.id;
    seen();
    draw();
    panel.querySelector("button").focus();
  };
  const unseen = stamp(mail) > model.seenMail;
  const face = [
    h("span", { class: "to" }, t("mail_to", { name: names(mail.to) })),
    h("time", {}, when(stamp(mail))),
    h("b", { dir: "auto" }, mail.subject || t("no_subject")),
    h("span", { class: "first", dir: "auto" }, (mail.body ?? "").slice(0, 160)),
  ];
  return h("li", {}, button(unseen ? "mail unseen" : "mail", open, {}, face));
}

function letter(mail) {
  const back = () => {
    reading = null;
    draw();
    panel.querySelector("button")?.focus();
  };
  const line = (name, value) => value && [h("dt", {}, t(name)), h("dd", { dir: "auto" }, value)];
  const whole = (address) => (known(address) ? `${known(address).name} <${known(address).email}>` : address);
  return h(
    "article",
    { class: "letter" },
    button("quiet text", back, {}, icon("back"), t("all_mails")),
    h("h3", { dir: "auto" }, mail.subject || t("no_subject")),
    h(
      "dl",
      {},
      line("mail_from", mail.from),
      line("mail_recipient", mail.to.map(whole).join(", ")),
      line("mail_at", full(stamp(mail))),
      line("mail_id", mail.message_id),
    ),
    h("div", { class: "mail-body", dir: "auto" }, mail.body ?? ""),
  );
}

/** Whoever looks at the list has seen what is in it. */
export function seen() {
  model.seenMail = Math.max(model.seenMail, ...model.mails.map(stamp));
  keep();
  badge.textContent = "";
  document.body.removeAttribute("data-new-mail");
}

on("mails words", draw);
