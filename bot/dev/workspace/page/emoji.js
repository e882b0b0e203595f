/* Shortcodes that bots commonly write, as the characters they stand for. */

const TABLE = `
white_check_mark ✅|heavy_check_mark ✔️|x ❌|negative_squared_cross_mark ❎|warning ⚠️|no_entry ⛔|no_entry_sign 🚫
hourglass ⌛|hourglass_flowing_sand ⏳|alarm_clock ⏰|stopwatch ⏱️|clock1 🕐|calendar 📅|date 📅|spiral_calendar_pad 🗓️
email 📧|envelope ✉️|incoming_envelope 📨|mailbox 📫|inbox_tray 📥|outbox_tray 📤|memo 📝|pencil 📝|pencil2 ✏️
clipboard 📋|page_facing_up 📄|scroll 📜|bookmark_tabs 📑|card_index 📇|file_folder 📁|open_file_folder 📂|paperclip 📎
bust_in_silhouette 👤|busts_in_silhouette 👥|raising_hand 🙋|wave 👋|pray 🙏|ok_hand 👌|thumbsup 👍|+1 👍|thumbsdown 👎
-1 👎|clap 👏|muscle 💪|eyes 👀|point_right 👉|point_left 👈|point_up ☝️|point_down 👇|v ✌️|handshake 🤝
smile 😄|slightly_smiling_face 🙂|grinning 😀|joy 😂|blush 😊|wink 😉|thinking_face 🤔|sweat_smile 😅|cry 😢|sob 😭
disappointed 😞|face_with_thermometer 🤒|mask 😷|sunglasses 😎|heart ❤️|tada 🎉|sparkles ✨|star ⭐|fire 🔥|rocket 🚀
bulb 💡|bell 🔔|no_bell 🔕|lock 🔒|unlock 🔓|key 🔑|closed_lock_with_key 🔐|shield 🛡️|mag 🔍|link 🔗|gear ⚙️
wrench 🔧|hammer 🔨|robot_face 🤖|speech_balloon 💬|thought_balloon 💭|question ❓|grey_question ❔|exclamation ❗
information_source ℹ️|bangbang ‼️|arrow_right ➡️|arrow_left ⬅️|arrow_up ⬆️|arrow_down ⬇️|arrows_counterclockwise 🔄
repeat 🔁|leftwards_arrow_with_hook ↩️|heavy_plus_sign ➕|heavy_minus_sign ➖|red_circle 🔴|large_blue_circle 🔵
large_green_circle 🟢|large_yellow_circle 🟡|large_orange_circle 🟠|white_circle ⚪|black_circle ⚫|stop_sign 🛑
octagonal_sign 🛑|money_with_wings 💸|moneybag 💰|yen 💴|dollar 💵|credit_card 💳|receipt 🧾|airplane ✈️|train 🚆
taxi 🚕|fork_and_knife 🍴|palm_tree 🌴|beach_with_umbrella 🏖️|hospital 🏥|pill 💊|one 1️⃣|two 2️⃣|three 3️⃣|four 4️⃣
five 5️⃣|six 6️⃣|seven 7️⃣|eight 8️⃣|nine 9️⃣|keycap_ten 🔟|construction 🚧|chart_with_upwards_trend 📈|bar_chart 📊|Typing ⌨️`;

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
