/* Files: chosen in the composer or in a dialog, and shown under a message. */

import { attempt } from "./act.js";
import { upload } from "./api.js";
import { h, iconButton } from "./dom.js";
import { model } from "./model.js";
import { t } from "./words.js";

const SHOWN = ["image/png", "image/jpeg", "image/gif"];

/** "34 KB". */
export const size = (bytes) => (bytes < 1_000_000 ? `${Math.max(1, Math.round(bytes / 1000))} KB` : `${(bytes / 1_000_000).toFixed(1)} MB`);

/** Uploads what was picked, one after the other; what arrived, as {id, name, size}. */
export async function uploadAll(picked) {
  const sent = [];
  for (const file of picked) {
    await attempt(async () => {
      const { id, name, size } = await upload(model.person, file);
      sent.push({ id, name, size });
    });
  }
  return sent;
}

/** Lists the chosen files, each with a button that takes it off `chosen` again and calls `changed`. */
export function showChosen(list, chosen, changed) {
  const remove = (file) => () => {
    chosen.splice(chosen.indexOf(file), 1);
    changed();
  };
  const line = (file) =>
    h(
      "li",
      {},
      h("span", { class: "name", dir: "auto" }, file.name),
      h("span", { class: "note" }, size(file.size)),
      iconButton("close", t("remove_file", { name: file.name }), remove(file)),
    );
  list.replaceChildren(...chosen.map(line));
}

/** The files of a message: pictures are shown, and open in full when pressed; others can be saved. */
export const files = ({ files: list }) => (list?.length ? h("div", { class: "files" }, list.map(shared)) : null);

function shared({ id, title, name, alt_txt: alt, mimetype, type, size: bytes, is_external: external }) {
  if (external) return h("span", { class: "note" }, title);
  const address = `/local/file/${encodeURIComponent(id)}?${new URLSearchParams({ person: model.me.id })}`;
  if (!SHOWN.includes(mimetype) && type !== "image") {
    return h("a", { class: "file", href: address, download: name ?? title }, h("span", { class: "name", dir: "auto" }, title ?? name), h("span", { class: "note" }, size(bytes ?? 0)));
  }
  return h("a", { class: "picture", href: address, target: "_blank", rel: "noopener", title }, h("img", { src: address, alt: alt || title || name }));
}
