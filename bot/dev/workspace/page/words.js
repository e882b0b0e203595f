/* The page's own words, and times as this reader writes them. */

import { get } from "./api.js";

let words = {};
let locale = "zh-CN";
let zone;

/** Fetches the words of one language; keeps the old ones when that fails. What a platform calls otherwise comes first. */
export async function load(lang, platform) {
  words = await get("texts", { lang });
  const own = `page.${platform}_`;
  for (const [key, text] of Object.entries(words)) if (key.startsWith(own)) words[key.replace(own, "page.")] = text;
  locale = lang === "zh" ? "zh-CN" : "en-GB";
  document.documentElement.lang = lang === "zh" ? "zh-CN" : "en";
}

/** Times are told in the time zone of the person who reads. */
export function setZone(name) {
  try {
    Intl.DateTimeFormat("en", { timeZone: name });
    zone = name;
  } catch {
    zone = undefined;
  }
}

/** A sentence of the page: `t("replies", {n: 3})` is the text `page.replies`, or its form for one of something. */
export function t(name, params = {}) {
  const sentence = (params.n === 1 && words[`page.${name}.one`]) || words[`page.${name}`];
  if (sentence === undefined) return name;
  return sentence.replace(/\{(\w+)\}/g, (whole, key) => (key in params ? String(params[key]) : whole));
}

/** Like `t`, or undefined where the page has no such sentence. */
export const known = (name) => (`page.${name}` in words ? t(name) : undefined);

/** Fills in every element that names its words: data-t (text), data-t-label (accessible name). */
export function apply(root) {
  for (const element of root.querySelectorAll("[data-t]")) element.textContent = t(element.dataset.t);
  for (const element of root.querySelectorAll("[data-t-label]")) element.setAttribute("aria-label", t(element.dataset.tLabel));
}

const format = (ms, options) => new Intl.DateTimeFormat(locale, { timeZone: zone, ...options }).format(ms);

export const millis = ({ at_ms: at, ts }) => at ?? Math.round(Number(ts) * 1000);
const TIME = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
export const clock = (ms) => format(ms, TIME);
export const clockSeconds = (ms) => format(ms, { ...TIME, second: "2-digit" });
export const full = (ms) => format(ms, { year: "numeric", month: "long", day: "numeric", weekday: "long", ...TIME });

/** Two moments with the same day key happened on the same day for this reader. */
export const day = (ms) => format(ms, { year: "numeric", month: "2-digit", day: "2-digit" });

const DAY_MS = 86_400_000;

/** "Today", "Yesterday", or the date. */
export function dayName(ms, now = Date.now()) {
  if (day(ms) === day(now)) return t("today");
  if (day(ms) === day(now - DAY_MS)) return t("yesterday");
  const year = day(ms).slice(0, 4) === day(now).slice(0, 4) || locale === "en-GB" ? {} : { year: "numeric" };
  return format(ms, { ...year, month: "long", day: "numeric", weekday: "long" });
}

/** Time alone today, otherwise day and time. */
export const when = (ms, now = Date.now()) =>
  day(ms) === day(now) ? clock(ms) : `${format(ms, { month: "short", day: "numeric" })} ${clock(ms)}`;

const DATES = {
  date_short: { year: "numeric", month: "short", day: "numeric" },
  time: TIME,
};

/** The date tokens of Slack that the bot writes: `{date_short_pretty} {time}`. Undefined when a token is not known. */
export function tokens(ms, template) {
  let strange = false;
  const text = template.replace(/\{(\w+)\}/g, (whole, name) => {
    const plain = name.replace(/_pretty$/, "");
    if (name !== plain && [day(Date.now()), day(Date.now() - DAY_MS)].includes(day(ms))) return dayName(ms);
    if (!(plain in DATES)) strange = true;
    return strange ? whole : format(ms, DATES[plain]);
  });
  return strange ? undefined : text;
}
