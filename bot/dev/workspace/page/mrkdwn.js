/* Slack's mrkdwn as nodes. Untrusted: everything ends in a text node, links only where the scheme is harmless. */

import { h } from "./dom.js";
import { emojify, unescape } from "./emoji.js";
import { t, tokens } from "./words.js";

/** Slack escapes exactly three characters. */
export const escape = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");

/** A link that leaves the page; anything but http, https and mailto stays text. */
export function link(address, ...label) {
  let url;
  try {
    url = new URL(address);
  } catch {
    return h("span", {}, ...label);
  }
  if (!["http:", "https:", "mailto:"].includes(url.protocol)) return h("span", {}, ...label);
  return h("a", { href: url.href, target: "_blank", rel: "noopener noreferrer" }, ...label);
}

/** A person as a name. `look.person(id)` finds them. */
export function mention(id, look, fallback = id) {
  const person = look.person(id);
  const me = id === look.me?.id;
  return h("span", { class: me ? "mention me" : "mention", dir: "auto" }, `@${person?.name ?? fallback}`);
}

const ADDRESS = /https?:\/\/[^\s<>"'）】」』，。；]+[^\s<>"'.,;:!?）】」』，。；)\]]/g;

/** A text as nodes: what `pattern` finds is made by `make`, what stands between by `between`, which gives a list. */
export function weave(text, pattern, between, make) {
  const nodes = [];
  let at = 0;
  for (const found of text.matchAll(pattern)) {
    nodes.push(...between(text.slice(at, found.index)), make(found));
    at = found.index + found[0].length;
  }
  return [...nodes, ...between(text.slice(at))];
}

const characters = (text) => (text ? [emojify(text)] : []);

/** Plain characters: emoji shortcodes and bare addresses; `verbatim` leaves addresses alone. */
export const plain = (text, look = {}) =>
  look.verbatim ? characters(text) : weave(text, ADDRESS, characters, ([address]) => link(address, address));

/** What stands between angle brackets: a mention, a channel, a date or a link. */
function angle(inside, look) {
  const [head, ...rest] = inside.split("|");
  const label = unescape(rest.join("|"));
  const kind = head[0];
  if (kind === "@") return mention(head.slice(1), look, label || head.slice(1));
  if (kind === "#") return h("span", { class: "mention" }, `#${label || (look.channel(head.slice(1))?.name ?? head.slice(1))}`);
  if (kind === "!") return special(head.slice(1), label);
  const address = unescape(head);
  return link(address, label ? emojify(label) : address.replace(/^mailto:/, ""));
}

function special(head, label) {
  const [name, seconds, template] = head.split("^");
  if (name === "date") {
    const said = tokens(Number(seconds) * 1000, unescape(template ?? ""));
    const when = new Date(Number(seconds) * 1000);
    const machine = Number.isNaN(when.valueOf()) ? undefined : when.toISOString();
    return h("time", { datetime: machine }, (machine && said) || label);
  }
  return h("span", { class: "mention loud" }, label || `@${name}`);
}

const INLINE = new RegExp(
  [
    "`(?<code>[^`\\n]+)`",
    "<(?<angle>[^<>\\n]+)>",
    "(?<![A-Za-z0-9*])\\*(?<bold>[^\\s*](?:[^*\\n]*[^\\s*])?)\\*(?![A-Za-z0-9*])",
    "(?<![A-Za-z0-9_])_(?<italic>[^\\s_](?:[^_\\n]*[^\\s_])?)_(?![A-Za-z0-9_])",
    "(?<![A-Za-z0-9~])~(?<strike>[^\\s~](?:[^~\\n]*[^\\s~])?)~(?![A-Za-z0-9~])",
  ].join("|"),
  "g",
);

/** One line or more of running text, without quotes, lists and preformatted parts. */
const inline = (text, look) => weave(text, INLINE, (part) => plain(unescape(part), look), ({ groups }) => one(groups, look));

function one({ code, angle: inside, bold, italic, strike }, look) {
  if (code !== undefined) return h("code", {}, unescape(code));
  if (inside !== undefined) return angle(inside, look);
  if (bold !== undefined) return h("strong", {}, inline(bold, look));
  if (italic !== undefined) return h("em", {}, inline(italic, look));
  return h("s", {}, inline(strike, look));
}

const LINES = [
  { tag: "blockquote", mark: /^(?:&gt;|>) ?/ },
  { tag: "ul", mark: /^ {0,6}[•◦▪-] +/ },
  { tag: "ol", mark: /^ {0,3}(\d{1,4})[.)] +/ },
  { tag: "p", mark: /^/ },
];

/** A whole mrkdwn text: paragraphs, quotes, lists, preformatted parts. `look.bare` knows no marks, as Feishu's texts. */
export function mrkdwn(text, look) {
  if (look.bare) return text ? [h("p", { dir: "auto" }, plain(text))] : [];
  const nodes = [];
  for (const [index, part] of text.split("```").entries()) {
    if (index % 2) nodes.push(h("pre", { tabindex: 0 }, h("code", {}, unescape(part.replace(/^\n|\n$/g, "")))));
    else nodes.push(...paragraphs(part.replace(index ? /^\n/ : /^$/, "").replace(/\n$/, ""), look));
  }
  return nodes;
}

function paragraphs(text, look) {
  const groups = [];
  for (const line of text === "" ? [] : text.split("\n")) {
    const form = LINES.find(({ mark }) => mark.test(line));
    const last = groups.at(-1);
    if (last?.form === form) last.lines.push(line);
    else groups.push({ form, lines: [line] });
  }
  return groups.map(({ form, lines }) => group(form, lines, look));
}

function group({ tag, mark }, lines, look) {
  const bare = lines.map((line) => line.replace(mark, ""));
  if (tag === "p" || tag === "blockquote") return h(tag, { dir: "auto" }, inline(bare.join("\n"), look));
  const start = tag === "ol" ? mark.exec(lines[0])[1] : undefined;
  return h(tag, { start, dir: "auto" }, bare.map((line) => h("li", {}, inline(line, look))));
}

/** One line for lists and announcements: the same text without any mark-up. */
export function gist(text, look, length = 140) {
  const flat = h("div", {}, mrkdwn(text ?? "", look)).textContent.replace(/\s+/g, " ").trim();
  return flat.length > length ? `${flat.slice(0, length - 1)}…` : flat || t("attachment");
}
