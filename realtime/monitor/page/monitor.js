// The monitor's page: displays the show's frames and health, and sends commands to it.

import { Body } from "./body.js";
import { Mapping, make } from "./mapping.js";
import { Plots } from "./plots.js";

const $ = (id) => document.getElementById(id);
const [freeze, bypass] = ["freeze", "bypass"].map((name) => document.querySelector(`[data-switch=${name}]`));
// Seconds per frame; frames of history that are kept.
const FRAME = 0.02, MAX_HISTORY = 400;
// Most frames that the show bridges with its forecast.
const MAX_BRIDGED = 20;
// Ms without any message of the show until it counts as hanging.
const MAX_QUIET = 3000;
// Ms between the questions whether the monitor is there.
const ASK_EVERY = 5000;
// Ranges of scalars that are not 0 to 1.
const RANGES = { transition_pressure: [-2, 2] };
// Events without a mark in the lane: classes have curves of their own, and of a gesture the start is enough.
const HIDDEN_EVENTS = /^class\/|^gesture\/.*\/leave/;
// Tooltips of technical terms.
const TOOLTIPS = {
  latency: "from the suit's datagram to the send",
  trust: "share of the forecast, against the held value",
  gate: "commitment gate: events wait until it opens",
  place: "position in the rehearsed take, seconds",
  commitment: "how settled the course of the movement is",
  uncertainty: "how much the continuations of similar moments differ",
  transition_pressure: "something is about to change: commitment gained, uncertainty lost",
  recovery_margin: "distance from the limits of its range",
  phase_stiffness: "persistence of the direction of movement",
  novelty: "distance from everything before",
  stability: "freedom from jerk",
};

// retryDelay: ms until the next connection attempt; lost: why there is no connection ("gone": the show has ended).
let hello = null, socket = null, body = null, params = null, scalars = null, retryDelay = 500, lost = "";
// shown: the newest frame with a body; arrived: when the newest frame came, heard: when anything of the show did (ms).
let history = [], shown = null, events = [], newest = null, health = {}, arrived = 0, heard = 0, isAnswered = true, lastBodySeq = -Infinity;

function colours() {
  const css = getComputedStyle(document.documentElement);
  return Object.fromEntries(["ink", "soft", "line", "scalar", "param", "future", "event"].map((n) => [n, css.getPropertyValue("--" + n).trim()]));
}
const mapping = new Mapping($("mapping"), sendCommand);
// isStale: something that is drawn may have changed since it was.
let suitParents = null, rig = null, palette = colours(), isStale = true;
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { palette = colours(); isStale = true; });
for (const kind of ["pointermove", "change", "resize"]) addEventListener(kind, () => { isStale = true; });

function showText(text, bad, where = "answer") {
  $(where).textContent = text;
  $(where).classList.toggle("bad", Boolean(bad));
}

/** Commands of each switch that the show has not answered; until then its reported state is outdated. A reply may be
 * lost, so it is awaited for this many ms at most; creating a recording takes a while. */
const REPLY_TIMEOUT = { freeze: 1000, bypass: 1000, record: 10000 };
const unanswered = { freeze: 0, bypass: 0, record: 0 }, sentAt = {};
const switchOf = (name) => (name === "start" ? "freeze" : name.split("/")[0]);
const isPending = (name) => unanswered[name] > 0 && performance.now() - sentAt[name] < REPLY_TIMEOUT[name];

/** Sets a button that is on or off, for the eye and for a screen reader. */
function setOn(button, on) {
  button.classList.toggle("on", on);
  button.ariaPressed = String(on);
}

/** Sends a command to the show; returns whether there is a connection. */
function sendCommand(name, ...rest) {
  const isConnected = socket?.readyState === WebSocket.OPEN;
  if (isConnected && Object.hasOwn(unanswered, switchOf(name))) {
    unanswered[switchOf(name)] += 1;
    sentAt[switchOf(name)] = performance.now();
  }
  if (!isConnected) showText(lost === "gone" ? "the show is gone" : "no connection", true);
  else socket.send(JSON.stringify({ do: name, with: rest }));
  if (isConnected && name === "teach/fit") showText("fitting");
  return isConnected;
}

// -- messages of the show --------------------------------------------------------------------------

function onHello(message) {
  hello = message;
  const everybody = Object.entries(message.everybody).map(([name, port]) => [String(port), name]);
  $("who").hidden = everybody.length < 2;
  setOptions($("who"), everybody, location.port);
  $("notice").textContent = message.obeys ? "" : "view only";
  updateDisabled();
  body ??= new Body($("body"), hello);
  params ??= new Plots($("params").querySelector("canvas"), hello.params.map((name) => ({ name, low: 0, high: 1 })), "param");
  scalars ??= new Plots($("scalars").querySelector("canvas"), hello.scalars.map((name) => {
    const [low, high] = RANGES[name] ?? [0, 1];
    return { name, low, high, title: TOOLTIPS[name] };
  }), "scalar");
}

/** Disables the controls if the remote control is off. */
function updateDisabled() {
  for (const control of document.querySelectorAll("#panic, :is(#controls, #mapping) :is(button, input, select)")) control.disabled = !hello.obeys;
}

const historyEntry = (frame) => ({ t: frame.seq * FRAME, values: frame.params, scalars: frame.scalars, extras: Object.values(frame.extras) });

function onFrame(frame) {
  if (newest && frame.seq < newest.seq) { history = []; shown = null; events = []; lastBodySeq = -Infinity; }
  const isFirst = !newest;
  if (newest?.state !== frame.state) setOn(freeze, frame.state === "frozen");
  if ($("state").textContent !== frame.state) showState(frame.state);
  newest = frame;
  // Show the facts that come with frames now, not only with the next health.
  if (isFirst && health.state) onHealth(health);
  arrived = performance.now();
  mapping.setValues({ ...Object.fromEntries(hello.params.map((name, i) => [name, frame.params[i]])), ...frame.extras });
  const t = frame.seq * FRAME;
  history.push(historyEntry(frame));
  const names = [...hello.params, ...Object.keys(frame.extras)];
  if (params.lanes.map(({ name }) => name).join() !== names.join()) {
    params.lanes = names.map((name) => ({ name, low: 0, high: 1 }));
    for (const past of history) past.extras = [];
    history.at(-1).extras = Object.values(frame.extras);
  }
  if (frame.places) [lastBodySeq, shown] = [frame.seq, frame];
  if (history.length > MAX_HISTORY) history.shift();
  for (const [name, strength, ahead] of frame.events) {
    const due = t + ahead;
    if (name.endsWith("/cancel")) {
      const plain = name.slice(0, -7), pending = events.filter((e) => e.name === plain && e.t > t && e.state === "due");
      const cancelled = pending.sort((a, b) => Math.abs(a.t - due) - Math.abs(b.t - due))[0];
      if (cancelled) cancelled.state = "off";
    } else if (!HIDDEN_EVENTS.test(name)) events.push({ t: due, name, strength, state: "due" });
  }
  for (const e of events) if (e.state === "due" && e.t <= t) e.state = "come";
  events = events.filter((e) => e.t > t - 7);
}

/** Sets the switches to the state that the show reports, unless a command is pending. */
function showSwitches(report) {
  if (!isPending("freeze")) setOn(freeze, report.mode === "frozen");
  if (!isPending("bypass")) setOn(bypass, report.bypass);
  if (!isPending("record")) showRecording(report.recording);
}

function showRecording(on) {
  $("record").classList.toggle("on", on);
  $("record").textContent = on ? "Stop recording" : "Record";
}

function onStatus(status) {
  $("words").replaceChildren(...status.map((word) => make("li", { textContent: word })));
}

/** Sets the options of a select from [value, text] pairs, if they changed, and its value, unless it has the focus. */
function setOptions(select, pairs, value) {
  const key = JSON.stringify(pairs);
  if (select.dataset.options !== key) {
    select.dataset.options = key;
    select.replaceChildren(...pairs.map(([v, text]) => make("option", { value: v, textContent: text })));
  }
  if (document.activeElement !== select) select.value = value;
}

const row = (cells, bad = []) => make("tr", {}, ...cells.map((text, i) => make("td", { textContent: text, className: bad[i] ? "bad" : "" })));

function onHealth(report) {
  const before = health;
  health = report;
  for (const [name, value] of Object.entries(report.settings)) {
    const input = $(name);
    if (!input || document.activeElement === input) continue;
    const number = value === "auto" ? report.lead_ms : value;
    input.value = number;
    input.nextElementSibling.textContent = value === "auto" ? `auto ${Math.round(number)}` : `${+number.toFixed(2)}`;
  }
  setOn($("auto"), report.settings.lead_ms === "auto");
  showSwitches(report);
  setOptions($("preset"), report.presets.map((p) => [p, p]), report.preset);
  // The sender that is listened to may be a host without a port, or may not have sent yet.
  const listensTo = report.listens_to ?? "", senders = new Set(["", listensTo, ...report.senders.map(([name]) => name)]);
  setOptions($("source"), [...senders].map((name) => [name, name || "any sender"]), listensTo);
  $("senders").tBodies[0].replaceChildren(...report.senders.map(([name, plays, frames, gone]) => row([name || "a file", gone ? `gone ${gone} s` : plays ? "plays" : "waits", `${frames} frames`])));
  $("sinks").tBodies[0].replaceChildren(...Object.entries(report.sinks).map(([name, c]) => {
    const previous = before.sinks?.[name] ?? c, isWorse = (k) => c[k] > previous[k];
    // A line ends before a port or after a dot, not within a number.
    return row([name.replace(/(?=:)|(?<=\.)/g, "\u200b"), c.sent, c.dropped, c.refused, c.failed], [false, false, isWorse("dropped"), isWorse("refused"), isWorse("failed")]);
  }));
  for (const id of ["teach", "memory", "calibrate"]) $(id).hidden = !report.commands.some((c) => c.startsWith(id));
  setOptions($("commands"), report.commands.map((c) => [c, ""]), "");
  // The newest frame is outdated if the suit is gone.
  const now = report.rate ? newest : null;
  const facts = [
    ["suit", report.source], ["rate", report.rate ? `${report.rate.toFixed(0)} Hz` : "-"],
    ["lost", report.lost ?? "-", report.lost > (before.lost ?? report.lost)],
    ["latency", now ? `${now.way_ms.toFixed(2)} ms` : "-"],
    ["tempo", now && now.tempo[2] >= 0.5 ? `${now.tempo[0].toFixed(0)} bpm` : "-"],
    ["trust", now && now.trust.length ? `${Math.round(100 * now.trust.reduce((a, b) => a + b) / now.trust.length)} %` : "-"],
    ["gate", now && now.gate !== null ? now.gate.toFixed(2) : "-"],
    ["place", now && now.place && now.place[0] >= 0 ? `${now.place[1].toFixed(1)} s` : "-"],
    ["model", report.backend], ["bad", report.bad, report.bad > (before.bad ?? report.bad)],
  ];
  $("facts").replaceChildren(...facts.map(([name, value, bad]) => make(
    "div", {}, make("dt", { textContent: name, title: TOOLTIPS[name] ?? "" }), make("dd", { textContent: value, className: bad ? "bad" : "" }),
  )));
  showState(report.state);
}

/** files: names of the files in the show's folder, by kind. */
function onFiles(files) {
  for (const select of document.querySelectorAll("[data-kind]")) {
    const names = files[select.dataset.kind];
    setOptions(select, names.map((name) => [name, name]), names.includes(select.value) ? select.value : names[0]);
    select.closest(".row").hidden = !names.length;
  }
  $("nothing").textContent = Object.values(files).some((names) => names.length) ? "" : "There are none.";
}

function showState(text) {
  $("state").textContent = text;
  $("state").className = `pill ${text.replace(" ", "-")}`;
}

function connect() {
  const scheme = location.protocol === "https:" ? "wss:" : "ws:";
  socket = new WebSocket(`${scheme}//${location.host}/live${location.search}`);
  let opened = false;
  isAnswered = true;
  socket.onopen = () => {
    opened = true;
    if (lost) showText("");
    lost = "";
    for (const name in unanswered) unanswered[name] = 0;
  };
  socket.onmessage = ({ data }) => {
    const message = JSON.parse(data);
    retryDelay = 500;
    isAnswered = true;
    if (message.alive) return;
    isStale = true;
    heard = performance.now();
    if (message.hello) onHello(message.hello);
    else if (message.past) history = message.past.map(historyEntry);
    else if (message.frame && hello) onFrame(message.frame);
    else if (message.status) onStatus(message.status);
    else if (message.health) onHealth(message.health);
    else if (message.suit) suitParents = message.suit;
    else if (message.files) onFiles(message.files);
    else if (message.rig) {
      mapping.show((rig = message.rig));
      updateDisabled();
    } else if (message.reply !== undefined) {
      const { reply, ok, text } = message;
      if (unanswered[switchOf(reply)]) unanswered[switchOf(reply)] -= 1;
      showText(ok ? `${reply} ${text}` : text, !ok, /^(rig\/(?!load)|learn\/)/.test(reply) ? "mapped" : "answer");
      // Undo the input that was refused.
      if (!ok && rig) mapping.show(rig);
      if (!ok && health.state) showSwitches(health);
    }
  };
  socket.onclose = async ({ code }) => {
    // 1001: the show has ended; else its state is unknown.
    lost = code === 1001 ? "gone" : lost || "no connection";
    if (health.state) onHealth({ ...health, state: lost, rate: null, senders: [] });
    else showState(lost);
    setTimeout(connect, retryDelay);
    retryDelay = Math.min(2 * retryDelay, 8000);
    if (opened) return;
    // A page cannot read why its websocket was refused, but the same reason comes with the page.
    const refusal = await fetch(location.href).then((answer) => (answer.status === 403 ? answer.text() : ""), () => "");
    if (!refusal || !lost) return;
    $("notice").textContent = refusal;
    showState((lost = "no connection"));
  };
}

// A show sends its health once a second, even while no suit does: one that has not for some seconds hangs.
setInterval(() => {
  if (!lost && (newest || health.state) && performance.now() - heard > MAX_QUIET) showState("no answer");
}, 500);

// A connection can die without a close: the network is away, the computer has slept. The monitor answers even if the show hangs.
setInterval(() => {
  if (socket.readyState > WebSocket.OPEN) return;
  if (!isAnswered) {
    const dead = socket;
    dead.close();
    dead.onclose({ code: 0 });
    dead.onopen = dead.onmessage = dead.onclose = null;
    return;
  }
  isAnswered = false;
  if (socket.readyState === WebSocket.OPEN) socket.send(JSON.stringify({ ask: "alive" }));
}, ASK_EVERY);

// -- drawing ---------------------------------------------------------------------------------------

function draw() {
  requestAnimationFrame(draw);
  if (!hello || document.hidden) return;
  const isFresh = performance.now() - arrived < 300 && newest;
  $("light").classList.toggle("on", Boolean(isFresh && newest.places));
  $("bridged").hidden = !isFresh || Boolean(newest.places) || newest.seq - lastBodySeq > MAX_BRIDGED;
  if (!isStale) return;
  isStale = false;
  const now = newest ? newest.seq * FRAME : 0;
  const showSuit = $("suited").checked, places = showSuit && suitParents && newest?.suit?.length === suitParents.length ? newest.suit : null;
  if (newest?.places) $("suits").textContent = !showSuit ? "" : places ? `right: its ${places.length} joints` : `a ${health.source} sends no skeleton: what it sends is mapped to these joints`;
  const suitBody = places && { parents: suitParents, places };
  body.draw(shown?.places, shown?.ghosts, palette, newest?.places || !showSuit ? suitBody : draw.lastSuitBody);
  if (newest?.places) draw.lastSuitBody = suitBody;
  let future = null;
  if (newest && newest.forecast) {
    const horizons = hello.horizons_ms, rows = hello.params.map((_, i) => newest.forecast[i]);
    // A mapping's parameters have no forecast.
    future = rows.map((row) => row[0] !== null && row.map((v, k) => ({ t: now + horizons[k] / 1000, v })));
  }
  const sent = history.map(({ t, values, extras }) => ({ t, values: extras.length ? [...values, ...extras] : values }));
  params.draw(now, sent, future ?? [], events, palette);
  scalars.draw(now, history.map(({ t, scalars: values }) => ({ t, values })), null, null, palette);
}

// -- controls --------------------------------------------------------------------------------------

/** Converts words to arguments of a command: numbers, except where it takes strings. */
const parseArguments = (name, words) => words.map((word, i) => (hello?.takes[name]?.[i] === "s" || !Number.isFinite(Number(word)) ? word : Number(word)));
/** Gives up the focus after a choice with the pointer, so that single keys work again; not after one with the keyboard. */
const releaseFocus = (input) => { if (!input.matches(":focus-visible")) input.blur(); };

for (const button of document.querySelectorAll("[data-do]")) {
  button.addEventListener("click", () => sendCommand(button.dataset.do, ...JSON.parse(button.dataset.with ?? "[]")));
}
for (const button of document.querySelectorAll("[data-switch]")) {
  button.addEventListener("click", () => {
    const on = !button.classList.contains("on"), name = button.dataset.switch;
    if (name === "freeze" ? sendCommand(on ? "freeze" : "start") : sendCommand(name, on ? 1 : 0)) setOn(button, on);
  });
}
for (const input of document.querySelectorAll("[data-set]")) {
  let last = 0;
  const send = () => { last = performance.now(); sendCommand(input.dataset.set, Number(input.value)); };
  input.addEventListener("input", () => {
    input.nextElementSibling.textContent = input.value;
    if (performance.now() - last > 50) send();
  });
  input.addEventListener("change", () => { send(); releaseFocus(input); });
}
$("who").addEventListener("change", (e) => { location.port = e.target.value; });
$("preset").addEventListener("change", (e) => { sendCommand("preset", e.target.value); releaseFocus(e.target); });
$("source").addEventListener("change", (e) => { sendCommand("source", e.target.value); releaseFocus(e.target); });
$("record").addEventListener("click", () => {
  const on = !$("record").classList.contains("on");
  if (sendCommand(on ? "record/start" : "record/stop")) showRecording(on);
});
$("files").addEventListener("toggle", () => { if ($("files").open && socket) socket.send(JSON.stringify({ ask: "files" })); });
for (const button of document.querySelectorAll("[data-load]")) {
  button.addEventListener("click", () => {
    const name = button.closest(".row").querySelector("select").value;
    if (name) sendCommand(button.dataset.load, ...(button.dataset.what ? [button.dataset.what] : []), name);
  });
}
$("want").addEventListener("click", () => {
  sendCommand("teach/values", ...parseArguments("teach/values", $("taught").value.split(/[\s,=]+/).filter(Boolean)));
});
$("begin").addEventListener("click", () => sendCommand("teach/start", ...($("take").value.trim() ? [$("take").value.trim()] : [])));
$("here").addEventListener("click", () => sendCommand("cue/set", $("cue").value.trim()));
$("do").addEventListener("click", () => {
  const [name, ...words] = $("command").value.split(/\s+/).filter(Boolean);
  if (name) sendCommand(name, ...parseArguments(name, words));
});
addEventListener("keydown", (e) => {
  // Ignore the repeats of a held key.
  if (e.repeat) { if (e.target.matches("button")) e.preventDefault(); return; }
  if (e.key === "Escape") { $("panic").click(); return; }
  if (e.key === "Enter" && e.target.matches(".row input")) { e.target.parentElement.querySelector("input ~ button").click(); return; }
  if (e.target.matches("select, input:not([type=checkbox], [type=range])") || e.ctrlKey || e.metaKey || e.altKey) return;
  const button = document.querySelector(`[data-key="${CSS.escape(e.key.toLowerCase())}"]`);
  if (button) { e.preventDefault(); button.click(); }
});

connect();
draw();
