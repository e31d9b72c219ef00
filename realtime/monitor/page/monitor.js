// The monitor: what the show tells, drawn; what is pressed, told to the show.

import { Body } from "./body.js";
import { Mapping } from "./mapping.js";
import { Plots } from "./plots.js";

const $ = (id) => document.getElementById(id);
const [freeze, bypass] = ["freeze", "bypass"].map((name) => document.querySelector(`[data-switch=${name}]`));
const FRAME = 0.02, KEPT = 400;
// So many frames are bridged; behind them nothing is foreseen any more.
const BRIDGED = 20;
// Bounds of the seven scalars; all others are 0 to 1.
const RANGES = { transition_pressure: [-2, 2] };
// Events that are left out of the lane: a class has curves of its own, and that a gesture was recognised is enough.
const LEFT_OUT = /^class\/|^gesture\/.*\/leave/;
// What the words mean that are not everybody's.
const MEANS = {
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

let hello = null, socket = null, body = null, params = null, scalars = null, pause = 500, lost = "";
let history = [], shown = null, events = [], newest = null, health = {}, arrived = 0, posed = -Infinity;

function colours() {
  const css = getComputedStyle(document.documentElement);
  return Object.fromEntries(["ink", "soft", "line", "scalar", "param", "future", "event"].map((n) => [n, css.getPropertyValue("--" + n).trim()]));
}
const mapping = new Mapping($("mapping"), tell);
let suit = null, rig = null, palette = colours();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { palette = colours(); });

function say(text, bad, where = "answer") {
  $(where).textContent = text;
  $(where).classList.toggle("bad", Boolean(bad));
}

/** How often each switch was pressed that the show has not answered: what it says of it is of before. Answers that go
 * elsewhere are not waited for longer than these ms; a file takes a while to be made. */
const PATIENCE = { freeze: 1000, bypass: 1000, record: 10000 };
const unanswered = { freeze: 0, bypass: 0, record: 0 }, asked = {};
const switchOf = (name) => (name === "start" ? "freeze" : name.split("/")[0]);
const isOpen = (name) => unanswered[name] > 0 && performance.now() - asked[name] < PATIENCE[name];

/** Whether it could be told. */
function tell(name, ...rest) {
  const there = socket?.readyState === WebSocket.OPEN;
  if (there && Object.hasOwn(unanswered, switchOf(name))) {
    unanswered[switchOf(name)] += 1;
    asked[switchOf(name)] = performance.now();
  }
  if (!there) say(lost === "gone" ? "the show is gone" : "no connection", true);
  else socket.send(JSON.stringify({ do: name, with: rest }));
  if (there && name === "teach/fit") say("fitting");
  return there;
}

// -- what comes ------------------------------------------------------------------------------------

function begin(told) {
  hello = told;
  const everybody = Object.entries(told.everybody).map(([name, port]) => [String(port), name]);
  $("who").hidden = everybody.length < 2;
  options($("who"), everybody, location.port);
  $("notice").textContent = told.obeys ? "" : "view only";
  allow();
  body ??= new Body($("body"), hello);
  params ??= new Plots($("params").querySelector("canvas"), hello.params.map((name) => ({ name, low: 0, high: 1 })), "param");
  scalars ??= new Plots($("scalars").querySelector("canvas"), hello.scalars.map((name) => {
    const [low, high] = RANGES[name] ?? [0, 1];
    return { name, low, high, title: MEANS[name] };
  }), "scalar");
}

/** What commands is dead where nothing obeys. */
function allow() {
  for (const one of document.querySelectorAll("#panic, :is(#controls, #mapping) :is(button, input, select)")) one.disabled = !hello.obeys;
}

const kept = (told) => ({ t: told.seq * FRAME, values: told.params, scalars: told.scalars, extras: Object.values(told.extras) });

function frame(told) {
  if (newest && told.seq < newest.seq) { history = []; shown = null; events = []; posed = -Infinity; }
  const first = !newest;
  if (newest?.state !== told.state) freeze.classList.toggle("on", told.state === "frozen");
  if ($("state").textContent !== told.state) state(told.state);
  newest = told;
  // What of the head is told by frames need not wait for the next second.
  if (first && health.state) stand(health);
  arrived = performance.now();
  mapping.stand({ ...Object.fromEntries(hello.params.map((name, i) => [name, told.params[i]])), ...told.extras });
  const t = told.seq * FRAME;
  history.push(kept(told));
  const names = [...hello.params, ...Object.keys(told.extras)];
  if (params.lanes.map(({ name }) => name).join() !== names.join()) {
    params.lanes = names.map((name) => ({ name, low: 0, high: 1 }));
    for (const past of history) past.extras = [];
    history.at(-1).extras = Object.values(told.extras);
  }
  if (told.places) [posed, shown] = [told.seq, told];
  if (history.length > KEPT) history.shift();
  for (const [name, strength, ahead] of told.events) {
    const due = t + ahead;
    if (name.endsWith("/cancel")) {
      const plain = name.slice(0, -7), mine = events.filter((e) => e.name === plain && e.t > t && e.state === "due");
      const off = mine.sort((a, b) => Math.abs(a.t - due) - Math.abs(b.t - due))[0];
      if (off) off.state = "off";
    } else if (!LEFT_OUT.test(name)) events.push({ t: due, name, strength, state: "due" });
  }
  for (const e of events) if (e.state === "due" && e.t <= t) e.state = "come";
  events = events.filter((e) => e.t > t - 7);
}

/** A switch shows at once what it was told; here, what the show says of it. */
function switches(told) {
  if (!isOpen("freeze")) freeze.classList.toggle("on", told.mode === "frozen");
  if (!isOpen("bypass")) bypass.classList.toggle("on", told.bypass);
  if (!isOpen("record")) recording(told.recording);
}

function recording(on) {
  $("record").classList.toggle("on", on);
  $("record").textContent = on ? "Stop recording" : "Record";
}

function words(status) {
  $("words").replaceChildren(...status.map((word) => Object.assign(document.createElement("li"), { textContent: word })));
}

function options(select, pairs, value) {
  const asked = JSON.stringify(pairs);
  if (select.dataset.asked !== asked) {
    select.dataset.asked = asked;
    select.replaceChildren(...pairs.map(([v, text]) => Object.assign(document.createElement("option"), { value: v, textContent: text })));
  }
  if (document.activeElement !== select) select.value = value;
}

function row(cells, bad = []) {
  const tr = document.createElement("tr");
  cells.forEach((text, i) => tr.append(Object.assign(document.createElement("td"), { textContent: text, className: bad[i] ? "bad" : "" })));
  return tr;
}

function stand(told) {
  const before = health;
  health = told;
  for (const [name, value] of Object.entries(told.settings)) {
    const input = $(name);
    if (!input || document.activeElement === input) continue;
    const number = value === "auto" ? told.lead_ms : value;
    input.value = number;
    input.nextElementSibling.textContent = value === "auto" ? `auto ${Math.round(number)}` : `${+number.toFixed(2)}`;
  }
  $("auto").classList.toggle("on", told.settings.lead_ms === "auto");
  switches(told);
  options($("preset"), told.presets.map((p) => [p, p]), told.preset);
  options($("source"), [["", "any sender"], ...told.senders.map(([name]) => [name, name])], told.listens_to ?? "");
  $("senders").tBodies[0].replaceChildren(...told.senders.map(([name, plays, frames, gone]) => row([name, gone ? `gone ${gone} s` : plays ? "plays" : "waits", `${frames} frames`])));
  $("sinks").tBodies[0].replaceChildren(...Object.entries(told.sinks).map(([name, c]) => {
    const was = before.sinks?.[name] ?? c, worse = (k) => c[k] > was[k];
    return row([name, c.sent, c.dropped, c.refused, c.failed], [false, false, worse("dropped"), worse("refused"), worse("failed")]);
  }));
  for (const id of ["teach", "memory", "calibrate"]) $(id).hidden = !told.commands.some((c) => c.startsWith(id));
  options($("commands"), told.commands.map((c) => [c, ""]), "");
  // Of a suit that has gone the newest frame tells nothing.
  const now = told.rate ? newest : null;
  const facts = [
    ["suit", told.source], ["rate", told.rate ? `${told.rate.toFixed(0)} Hz` : "-"],
    ["lost", told.lost ?? "-", told.lost > (before.lost ?? told.lost)],
    ["latency", now ? `${now.way_ms.toFixed(2)} ms` : "-"],
    ["tempo", now && now.tempo[2] >= 0.5 ? `${now.tempo[0].toFixed(0)} bpm` : "-"],
    ["trust", now && now.trust.length ? `${Math.round(100 * now.trust.reduce((a, b) => a + b) / now.trust.length)} %` : "-"],
    ["gate", now && now.gate !== null ? now.gate.toFixed(2) : "-"],
    ["place", now && now.place && now.place[0] >= 0 ? `${now.place[1].toFixed(1)} s` : "-"],
    ["model", told.backend], ["bad", told.bad, told.bad > (before.bad ?? told.bad)],
  ];
  $("facts").replaceChildren(...facts.map(([name, value, bad]) => {
    const div = document.createElement("div");
    div.append(Object.assign(document.createElement("dt"), { textContent: name, title: MEANS[name] ?? "" }), Object.assign(document.createElement("dd"), { textContent: value, className: bad ? "bad" : "" }));
    return div;
  }));
  state(told.state);
}

/** What the folder of the show has, by kind. */
function files(told) {
  for (const select of document.querySelectorAll("[data-kind]")) {
    const names = told[select.dataset.kind];
    options(select, names.map((name) => [name, name]), names.includes(select.value) ? select.value : names[0]);
    select.closest(".row").hidden = !names.length;
  }
  $("nothing").textContent = Object.values(told).some((names) => names.length) ? "" : "There are none.";
}

function state(text) {
  $("state").textContent = text;
  $("state").className = `pill ${text.replace(" ", "-")}`;
}

function connect() {
  const scheme = location.protocol === "https:" ? "wss:" : "ws:";
  socket = new WebSocket(`${scheme}//${location.host}/live${location.search}`);
  let opened = false;
  socket.onopen = () => {
    opened = true;
    if (lost) say("");
    lost = "";
    for (const name in unanswered) unanswered[name] = 0;
  };
  socket.onmessage = ({ data }) => {
    const told = JSON.parse(data);
    pause = 500;
    if (told.hello) begin(told.hello);
    else if (told.past) history = told.past.map(kept);
    else if (told.frame && hello) frame(told.frame);
    else if (told.status) words(told.status);
    else if (told.health) stand(told.health);
    else if (told.suit) suit = told.suit;
    else if (told.files) files(told.files);
    else if (told.rig) {
      mapping.show((rig = told.rig));
      allow();
    } else if (told.reply !== undefined) {
      if (unanswered[switchOf(told.reply)]) unanswered[switchOf(told.reply)] -= 1;
      say(told.ok ? `${told.reply} ${told.text}` : told.text, !told.ok, /^(rig\/(?!load)|learn\/)/.test(told.reply) ? "mapped" : "answer");
      // What was refused does not stand there any longer.
      if (!told.ok && rig) mapping.show(rig);
      if (!told.ok && health.state) switches(health);
    }
  };
  socket.onclose = async ({ code }) => {
    // A show that has ended says so; of one that is not heard nothing is known.
    lost = code === 1001 ? "gone" : lost || "no connection";
    if (health.state) stand({ ...health, state: lost, rate: null, senders: [] });
    else state(lost);
    setTimeout(connect, pause);
    pause = Math.min(2 * pause, 8000);
    if (opened) return;
    // Why a websocket is refused no page is told: but why the page is.
    const why = await fetch(location.href).then((answer) => (answer.status === 403 ? answer.text() : ""), () => "");
    if (!why || !lost) return;
    $("notice").textContent = why;
    state((lost = "no connection"));
  };
}

// -- what is drawn ---------------------------------------------------------------------------------

function draw() {
  requestAnimationFrame(draw);
  if (!hello || document.hidden) return;
  const fresh = performance.now() - arrived < 300 && newest;
  $("light").classList.toggle("on", Boolean(fresh && newest.places));
  $("bridged").hidden = !fresh || Boolean(newest.places) || newest.seq - posed > BRIDGED;
  const now = newest ? newest.seq * FRAME : 0;
  const suited = $("suited").checked, own = suited && suit && newest?.suit?.length === suit.length ? newest.suit : null;
  if (newest?.places) $("suits").textContent = !suited ? "" : own ? `right: its ${own.length} joints` : `a ${health.source} sends no skeleton: what it sends is mapped to these joints`;
  body.draw(shown?.places, shown?.ghosts, palette, newest?.places || !suited ? own && { parents: suit, places: own } : draw.own);
  if (newest?.places) draw.own = own && { parents: suit, places: own };
  let future = null;
  if (newest && newest.forecast) {
    const at = hello.horizons_ms, rows = hello.params.map((_, i) => newest.forecast[i]);
    future = rows.map((row) => row.map((v, k) => ({ t: now + at[k] / 1000, v })));
  }
  const sent = history.map(({ t, values, extras }) => ({ t, values: extras.length ? [...values, ...extras] : values }));
  params.draw(now, sent, future ?? [], events, palette);
  scalars.draw(now, history.map(({ t, scalars: values }) => ({ t, values })), null, null, palette);
}

// -- what is pressed -------------------------------------------------------------------------------

/** Words to arguments of a command: numbers are numbers, but where it takes text. */
const parsed = (name, words) => words.map((word, i) => (hello?.takes[name]?.[i] === "s" || !Number.isFinite(Number(word)) ? word : Number(word)));
/** Who chose with the pointer has the keys back; who chose with keys goes on. */
const leave = (input) => { if (!input.matches(":focus-visible")) input.blur(); };

for (const button of document.querySelectorAll("[data-do]")) {
  button.addEventListener("click", () => tell(button.dataset.do, ...JSON.parse(button.dataset.with ?? "[]")));
}
for (const button of document.querySelectorAll("[data-switch]")) {
  button.addEventListener("click", () => {
    const on = !button.classList.contains("on"), name = button.dataset.switch;
    if (name === "freeze" ? tell(on ? "freeze" : "start") : tell(name, on ? 1 : 0)) button.classList.toggle("on", on);
  });
}
for (const input of document.querySelectorAll("[data-set]")) {
  let last = 0;
  const send = () => { last = performance.now(); tell(input.dataset.set, Number(input.value)); };
  input.addEventListener("input", () => {
    input.nextElementSibling.textContent = input.value;
    if (performance.now() - last > 50) send();
  });
  input.addEventListener("change", () => { send(); leave(input); });
}
$("who").addEventListener("change", (e) => { location.port = e.target.value; });
$("preset").addEventListener("change", (e) => { tell("preset", e.target.value); leave(e.target); });
$("source").addEventListener("change", (e) => { tell("source", e.target.value); leave(e.target); });
$("record").addEventListener("click", () => {
  const on = !$("record").classList.contains("on");
  if (tell(on ? "record/start" : "record/stop")) recording(on);
});
$("files").addEventListener("toggle", () => { if ($("files").open && socket) socket.send(JSON.stringify({ ask: "files" })); });
for (const button of document.querySelectorAll("[data-load]")) {
  button.addEventListener("click", () => {
    const name = button.closest(".row").querySelector("select").value;
    if (name) tell(button.dataset.load, ...(button.dataset.what ? [button.dataset.what] : []), name);
  });
}
$("want").addEventListener("click", () => {
  tell("teach/values", ...parsed("teach/values", $("taught").value.split(/[\s,=]+/).filter(Boolean)));
});
$("begin").addEventListener("click", () => tell("teach/start", ...($("take").value.trim() ? [$("take").value.trim()] : [])));
$("here").addEventListener("click", () => tell("cue/set", $("cue").value.trim()));
$("do").addEventListener("click", () => {
  const [name, ...words] = $("command").value.split(/\s+/).filter(Boolean);
  if (name) tell(name, ...parsed(name, words));
});
addEventListener("keydown", (e) => {
  // A key that is held is pressed once.
  if (e.repeat) { if (e.target.matches("button")) e.preventDefault(); return; }
  if (e.key === "Escape") { $("panic").click(); return; }
  if (e.key === "Enter" && e.target.matches(".row input")) { e.target.parentElement.querySelector("input ~ button").click(); return; }
  if (e.target.matches("select, input:not([type=checkbox], [type=range])") || e.ctrlKey || e.metaKey || e.altKey) return;
  const button = document.querySelector(`[data-key="${CSS.escape(e.key.toLowerCase())}"]`);
  if (button) { e.preventDefault(); button.click(); }
});

connect();
draw();
