/* Standard Markdown (Slack's `markdown` block, Feishu's cards) as nodes; the common part of it, with the same care as
 * mrkdwn. `look.tagged` adds the tags and the escapes of Feishu. */

import { h } from "./dom.js";
import { unescape } from "./emoji.js";
import { link, mention, plain, weave } from "./mrkdwn.js";

const PARTS = [
  "`(?<code>[^`\\n]+)`",
  "<@(?<user>[A-Z0-9]+)(?:\\|[^<>\\n]*)?>",
  "\\[(?<label>[^\\[\\]\\n]+)\\]\\((?<address>[^()\\s]+)\\)",
  "\\\\(?<literal>[!-/:-@\\[-`{-~])",
  "\\*\\*(?<bold>[^\\s*](?:[^*\\n]*[^\\s*])?)\\*\\*",
  "(?<![A-Za-z0-9_])__(?<bold2>[^\\s_](?:[^_\\n]*[^\\s_])?)__(?![A-Za-z0-9_])",
  "\\*(?<italic>[^\\s*](?:[^*\\n]*[^\\s*])?)\\*",
  "(?<![A-Za-z0-9_])_(?<italic2>[^\\s_](?:[^_\\n]*[^\\s_])?)_(?![A-Za-z0-9_])",
  "~~(?<strike>[^\\s~](?:[^~\\n]*[^\\s~])?)~~",
];
const TAGS = [
  "<at id ?= ?['\"]?(?<at>[\\w-]+)['\"]?[^<>]*>(?:</at>)?",
  "<font color ?= ?['\"]?(?<tone>[a-z]+)[^<>]*>(?<toned>[^]*?)</font>",
];
const INLINE = new RegExp(PARTS.join("|"), "g");
const TAGGED = new RegExp([...TAGS, ...PARTS].join("|"), "g");

const inline = (text, look) =>
  weave(text, look.tagged ? TAGGED : INLINE, (part) => plain(unescape(part, look.tagged)), ({ groups }) => one(groups, look));

function one(groups, look) {
  const { code, user, label, address, literal, bold, bold2, italic, italic2, strike, at, tone, toned } = groups;
  if (at !== undefined) return mention(at, look);
  if (tone !== undefined) return h("span", { class: "font", "data-tone": tone }, inline(toned, look));
  if (code !== undefined) return h("code", {}, unescape(code, look.tagged));
  if (user !== undefined) return mention(user, look);
  if (label !== undefined) return link(unescape(address, look.tagged), inline(label, look));
  if (literal !== undefined) return literal;
  if (bold ?? bold2) return h("strong", {}, inline(bold ?? bold2, look));
  if (italic ?? italic2) return h("em", {}, inline(italic ?? italic2, look));
  return h("s", {}, inline(strike, look));
}

const KINDS = [
  ["fence", /^\s{0,3}```/],
  ["heading", /^(#{1,6})\s+/],
  ["rule", /^\s{0,3}(?:(?:-\s*){3,}|(?:\*\s*){3,}|(?:_\s*){3,})$/],
  ["quote", /^\s{0,3}> ?/],
  ["table", /^\s*\|.*\|\s*$/],
  ["ul", /^(\s*)[-*+]\s+/],
  ["ol", /^(\s*)(\d{1,6})[.)]\s+/],
  ["blank", /^\s*$/],
];

const kindOf = (line) => KINDS.find(([, mark]) => mark.test(line))?.[0] ?? "text";

const DEEPEST = 8;

/** A whole Markdown text. Quotes and lists nest eight deep, then the rest is plain paragraphs. */
export function markdown(text, look, level = 0) {
  if (level > DEEPEST) return [h("p", {}, text)];
  const lines = text.split("\n");
  const nodes = [];
  while (lines.length) {
    const make = MAKERS[kindOf(lines[0])];
    if (make) nodes.push(...make(lines, look, level));
    else lines.shift();
  }
  return nodes;
}

const MAKERS = {
  fence(lines) {
    lines.shift();
    const end = lines.findIndex((line) => /^\s{0,3}```\s*$/.test(line));
    const body = lines.splice(0, end < 0 ? lines.length : end);
    lines.shift();
    return [h("pre", { tabindex: 0 }, h("code", {}, body.join("\n")))];
  },
  heading(lines, look) {
    const [, marks] = /^(#+)/.exec(lines[0]);
    const level = Math.min(marks.length + 2, 6);
    return [h(`h${level}`, { dir: "auto" }, inline(lines.shift().replace(/^#+\s+|\s+#+\s*$/g, ""), look))];
  },
  rule(lines) {
    lines.shift();
    return [h("hr")];
  },
  quote(lines, look, level) {
    const inner = take(lines, (line) => kindOf(line) === "quote").map((line) => line.replace(/^\s{0,3}> ?/, ""));
    return [h("blockquote", { dir: "auto" }, markdown(inner.join("\n"), look, level + 1))];
  },
  table(lines, look) {
    const rows = take(lines, (line) => kindOf(line) === "table").map(cells);
    const ruled = rows.length > 1 && rows[1].every((cell) => /^:?-+:?$/.test(cell));
    const head = ruled ? rows.splice(0, 2)[0] : null;
    const row = (tag) => (row) => h("tr", {}, row.map((cell) => h(tag, { dir: "auto" }, inline(cell, look))));
    const table = h("table", {}, head && h("thead", {}, row("th")(head)), h("tbody", {}, rows.map(row("td"))));
    return [h("div", { class: "wide", tabindex: 0 }, table)];
  },
  ul: (lines, look, level) => list("ul", lines, look, level),
  ol: (lines, look, level) => list("ol", lines, look, level),
  text(lines, look) {
    const own = take(lines, (line) => kindOf(line) === "text");
    return [h("p", { dir: "auto" }, inline(own.join("\n"), look))];
  },
};

const cells = (line) => line.trim().replace(/^\||\|$/g, "").split("|").map((cell) => cell.trim());

function take(lines, wanted) {
  const end = lines.findIndex((line) => !wanted(line));
  return lines.splice(0, end < 0 ? lines.length : end);
}

const depth = (line) => /^\s*/.exec(line)[0].replace(/\t/g, "    ").length;

/** One list; deeper lines belong to the item above them. */
function list(tag, lines, look, level) {
  const base = depth(lines[0]);
  const mark = tag === "ol" ? /^\s*(\d{1,6})[.)]\s+/ : /^\s*[-*+]\s+/;
  const start = tag === "ol" ? mark.exec(lines[0])[1] : undefined;
  const items = [];
  while (lines.length && kindOf(lines[0]) === tag && Math.abs(depth(lines[0]) - base) < 2) {
    const own = lines.shift().replace(mark, "");
    const deeper = take(lines, (line) => line.trim() !== "" && depth(line) > base + 1);
    const below = deeper.length ? markdown(dedent(deeper), look, level + 1) : null;
    items.push(h("li", { dir: "auto" }, inline(own, look), below));
  }
  return [h(tag, { start }, items)];
}

function dedent(lines) {
  const margin = Math.min(...lines.map(depth));
  return lines.map((line) => line.replace(/\t/g, "    ").slice(margin)).join("\n");
}
