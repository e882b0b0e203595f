/* Shortcodes that bots commonly write, as the characters they stand for. */

const TABLE = `
white_check_mark ✅|heavy_check_mark ✔️|x ❌|warning ⚠️|no_entry ⛔|hourglass ⌛|calendar 📅|email 📧|memo 📝|clipboard 📋
paperclip 📎|wave 👋|pray 🙏|ok_hand 👌|thumbsup 👍|+1 👍|thumbsdown 👎|-1 👎|clap 👏|eyes 👀|point_right 👉|smile 😄|joy 😂
thinking_face 🤔|heart ❤️|tada 🎉|sparkles ✨|star ⭐|rocket 🚀|bulb 💡|bell 🔔|lock 🔒|question ❓|exclamation ❗|Typing ⌨️`;

const EMOJI = new Map(TABLE.trim().split(/[\n|]/).map((entry) => entry.split(" ")));

/** `:tada:` → 🎉. What is not known stays as it was written. */
export const emojify = (text) => text.replace(/:([a-z0-9_+-]{1,40}):/g, (code, name) => EMOJI.get(name) ?? code);

const ENTITIES = { "&lt;": "<", "&gt;": ">", "&amp;": "&" };

/** Slack escapes exactly three characters, Feishu's markdown any by its number (`all`); this undoes it, once. */
export const unescape = (text, all = false) =>
  text.replace(/&(?:lt|gt|amp|nbsp|#(\d{1,6}));/g, (entity, number) => ENTITIES[entity] ?? (all ? String.fromCodePoint(number ?? 160) : entity));

/** A text object where only characters fit: labels, button faces, options. */
export function words(object) {
  const text = unescape(object?.text ?? "");
  return object?.emoji === false ? text : emojify(text);
}

export const emoji = (name) => EMOJI.get(name) ?? `:${name}:`;
