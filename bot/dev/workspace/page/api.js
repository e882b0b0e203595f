/* Talking to the workspace: plain requests, and one live feed that finds its way back by itself. */

const HEADERS = { "Content-Type": "application/json", "X-Requested-With": "countersign-page" };
const PATIENCE_MS = 15_000;
const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 8_000;

/** What went wrong, by a short name: `offline`, `timeout`, or the server's own error. */
export class Refused extends Error {
  constructor(code, body = {}) {
    super(body.message || code);
    this.code = code;
    this.body = body;
  }
}

async function request(path, options) {
  let response;
  try {
    response = await fetch(`/local/${path}`, { ...options, signal: AbortSignal.timeout(PATIENCE_MS) });
  } catch (error) {
    throw new Refused(error.name === "TimeoutError" ? "timeout" : "offline");
  }
  let body;
  try {
    body = await response.json();
  } catch {
    throw new Refused(response.ok ? "not_json" : `http_${response.status}`);
  }
  if (!response.ok || body.ok === false) throw new Refused(body.error ?? `http_${response.status}`, body);
  return body;
}

export const get = (path, query = {}) => request(`${path}?${new URLSearchParams(query)}`, { headers: HEADERS });

export const post = (path, body) => request(path, { method: "POST", headers: HEADERS, body: JSON.stringify(body) });

/** Puts a file into the workspace for somebody: {id, name, size}. Nobody sees it until it is sent. */
export const upload = (person, file) =>
  request(`upload?${new URLSearchParams({ person, name: file.name })}`, {
    method: "POST",
    headers: { ...HEADERS, "Content-Type": "application/octet-stream" },
    body: file,
  });

/**
 * Opens the live feed of one person, and again with growing pauses when it is lost; returns what closes it. `on` =
 * {frame(data), up(), down()}; at `up` look at everything: what came before it was told to nobody.
 */
export function openFeed(person, on) {
  const scheme = location.protocol === "https:" ? "wss" : "ws";
  let pause = FIRST_PAUSE_MS;
  let socket, timer, closed;
  const connect = () => {
    socket = new WebSocket(`${scheme}://${location.host}/local/feed?person=${encodeURIComponent(person)}`);
    socket.addEventListener("open", () => {
      pause = FIRST_PAUSE_MS;
      on.up();
    });
    socket.addEventListener("message", (event) => on.frame(JSON.parse(event.data)));
    socket.addEventListener("close", () => {
      if (closed) return;
      on.down();
      timer = setTimeout(connect, pause);
      pause = Math.min(pause * 1.7, LONGEST_PAUSE_MS);
    });
  };
  connect();
  return () => {
    closed = true;
    clearTimeout(timer);
    socket.close();
  };
}

/** Runs `work` at most once at a time; a call in between makes it run once more afterwards. */
export function coalesce(work) {
  let running = null;
  let again = false;
  return () => {
    again = true;
    running ??= (async () => {
      try {
        while (again) {
          again = false;
          await work();
        }
      } finally {
        running = null;
      }
    })();
    return running;
  };
}
