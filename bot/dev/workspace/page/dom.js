/* Building the page out of nodes. Data only ever becomes text nodes and attributes, never markup. */

const SVG = "http://www.w3.org/2000/svg";

/** An element: `h("p", {class: "note", onclick: go}, "text", child)`. Children that are false or nothing are left out. */
export function h(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "dataset") Object.assign(element.dataset, value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  fill(element, children);
  return element;
}

const ICONS = {
  chat: "M4 5.5A1.5 1.5 0 0 1 5.5 4h13A1.5 1.5 0 0 1 20 5.5v9a1.5 1.5 0 0 1-1.5 1.5H10l-4.5 4v-4A1.5 1.5 0 0 1 4 14.5z",
  hash: "M9.5 4 8 20M16 4l-1.5 16M4.5 9h16M3.5 15h16",
  home: "M4 11.5 12 4.5l8 7M6 10v9.5h12V10M10 19.5v-5.5h4v5.5",
  thread: "M8.5 9h7M8.5 12.5h4M4 5.5A1.5 1.5 0 0 1 5.5 4h13A1.5 1.5 0 0 1 20 5.5v9a1.5 1.5 0 0 1-1.5 1.5H10l-4.5 4v-4A1.5 1.5 0 0 1 4 14.5z",
  mail: "M4 6.5h16v11.5H4zM4 7l8 6.5L20 7",
  log: "M4.5 6.5h9M4.5 10.5h13M4.5 14.5h6M4.5 18.5h11M17 5v3M19.5 17v3",
  clip: "M18.5 11.5 12 18a4 4 0 0 1-5.7-5.7l7-7a2.7 2.7 0 0 1 3.8 3.8l-6.7 6.7a1.3 1.3 0 0 1-1.9-1.9l6-6",
  send: "M4.5 12 20 4.5 15.5 20l-3.5-6.5zM12 13.5l8-9",
  close: "M6 6l12 12M18 6 6 18",
  back: "M14.5 5.5 8 12l6.5 6.5",
  lock: "M6 11h12v8.5H6zM8.5 11V8a3.5 3.5 0 0 1 7 0v3",
  people: "M9 11a3 3 0 1 0 0-6 3 3 0 0 0 0 6zM3.5 19c0-3 2.4-5 5.5-5s5.5 2 5.5 5M15 5.3a3 3 0 0 1 0 5.4M17 14.4c2.1.6 3.5 2.3 3.5 4.6",
  info: "M12 11v5.5M12 7.5v.5M12 3.5a8.5 8.5 0 1 0 0 17 8.5 8.5 0 0 0 0-17",
  down: "M12 5v13M6.5 12.5 12 18l5.5-5.5",
  good: "M4 11h3.5v9H4zM7.5 11l4-7.5c1.7 0 2.6 1.4 2.2 3L13 9.5h5.5a2 2 0 0 1 2 2.4l-1.2 6.5a2 2 0 0 1-2 1.6H7.5",
  bad: "M4 4h3.5v9H4zM7.5 13l4 7.5c1.7 0 2.6-1.4 2.2-3L13 14.5h5.5a2 2 0 0 0 2-2.4l-1.2-6.5a2 2 0 0 0-2-1.6H7.5",
  list: "M4.5 7h15M4.5 12h15M4.5 17h15",
  warn: "M12 4 3.5 19h17zM12 10v4.5M12 16.8v.2",
};

function drawn(tag, attributes, ...children) {
  const node = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

/** A line icon, decorative: whatever carries it has an accessible name of its own. */
export const icon = (name) =>
  drawn("svg", { class: "icon", viewBox: "0 0 24 24", "aria-hidden": "true" }, drawn("path", { d: ICONS[name] }));

/** A button of this kind; `more` are further attributes. */
export const button = (kind, onclick, more, ...face) => h("button", { type: "button", class: kind, onclick, ...more }, ...face);

/** A button that is an icon. */
export const iconButton = (name, label, onclick, kind = "quiet") => button(kind, onclick, { "aria-label": label, title: label }, icon(name));

/** A place where nothing stands yet: what will stand here, and how it comes here. */
export const emptyPlace = (mark, title, words, kind = "empty") =>
  h("div", { class: kind }, icon(mark), h("h3", {}, title), h("p", {}, words));

/** Whether a box shows its end, or nearly. */
export const atEnd = (box) => box.scrollHeight - box.scrollTop - box.clientHeight < 60;

export function toEnd(box) {
  box.scrollTop = box.scrollHeight;
}

/** Swaps what a node holds. */
export function fill(parent, ...children) {
  parent.replaceChildren(...children.flat(Infinity).filter(Boolean));
}

/**
 * Brings the children of `parent` in line with `items` and touches only what changed, so that focus, selection and
 * scroll positions survive. An item is `{key, print, make}`: `print` is a string that differs when the look differs.
 */
export function reconcile(parent, items) {
  const old = new Map([...parent.children].map((child) => [child.dataset.key, child]));
  let before = parent.firstElementChild;
  for (const { key, print, make } of items) {
    let child = old.get(key);
    old.delete(key);
    if (!child || child.print !== print) {
      const made = make();
      made.dataset.key = key;
      made.print = print;
      if (child) {
        if (child === before) before = made;
        swap(child, made);
      }
      child = made;
    }
    if (child === before) before = before.nextElementSibling;
    else parent.insertBefore(child, before);
  }
  for (const child of old.values()) child.remove();
}

/** Replaces a node; focus inside it goes to the same button of the new one, or to the whole. */
function swap(old, made) {
  const focused = old.contains(document.activeElement) ? document.activeElement : null;
  old.replaceWith(made);
  if (!focused) return;
  const action = focused.dataset.action;
  const same = action && made.querySelector(`[data-action="${CSS.escape(action)}"]`);
  (same || made).focus({ preventScroll: true });
}

/** Roving focus for a row of tabs or similar: arrow keys move, Home and End jump. */
export function rove(list, selector) {
  list.addEventListener("keydown", (event) => {
    const stops = [...list.querySelectorAll(selector)].filter((stop) => stop.checkVisibility());
    const at = stops.indexOf(document.activeElement);
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    const to = { Home: 0, End: stops.length - 1 }[event.key] ?? (step && (at + step + stops.length) % stops.length);
    if (at < 0 || to === undefined) return;
    event.preventDefault();
    stops[to].focus();
    if (stops[to].getAttribute("role") === "tab") stops[to].click();
  });
}
