// Scrolling plots, one lane a value: the past to the left of the line "now", what is foreseen to the right.

import { surface } from "./canvas.js";

const PAST = 6, FUTURE = 0.6;

export class Plots {
  /** lanes: {name, low, high, title}[]; with a lane for events at the foot where there are any. */
  constructor(canvas, lanes, colour) {
    this.canvas = canvas;
    this.lanes = lanes;
    this.colour = colour;
    canvas.addEventListener("pointermove", ({ offsetY }) => {
      const one = this.lanes.find((_, i) => offsetY < this.head + (i + 1) * this.lane);
      canvas.title = one?.title ?? "";
    });
  }

  /**
   * now: seconds of the newest frame; history: {t, values}[]; future: {t, v}[] a lane, or null;
   * events: {t, name, strength, state}[] or null for no lane.
   */
  draw(now, history, future, events, colours) {
    const { lanes } = this, { g, width, height } = surface(this.canvas);
    // What is above the future is said above the lanes.
    const head = future ? 18 : 0, count = lanes.length + (events ? 1 : 0), lane = (height - head) / count;
    [this.head, this.lane] = [head, lane];
    // The future is drawn wider than it is: it is what this is for.
    const edge = width * (future ? 0.7 : 1) - 1;
    // Names and numbers stand left of the past.
    const left = Math.min(130, 0.3 * width);
    const x = (t) => (t <= now ? edge - ((now - t) / PAST) * (edge - left) : edge + ((t - now) / FUTURE) * (width - edge));
    g.font = "12px system-ui, sans-serif";
    g.textBaseline = "top";
    lanes.forEach((one, i) => {
      const top = head + i * lane, tall = lane - 4;
      const y = (v) => top + 2 + tall * (1 - (Math.max(one.low, Math.min(one.high, v)) - one.low) / (one.high - one.low));
      g.strokeStyle = colours.line;
      g.lineWidth = 1;
      g.beginPath();
      g.moveTo(0, top + lane - 1);
      g.lineTo(width, top + lane - 1);
      if (one.low < 0) { g.moveTo(left, y(0)); g.lineTo(edge, y(0)); }
      g.stroke();
      g.strokeStyle = colours[this.colour];
      g.lineWidth = 1.6;
      g.beginPath();
      let joined = false;
      for (const { t, values } of history) {
        const v = values[i];
        if (t < now - PAST || v === undefined || v === null) { joined = false; continue; }
        if (joined) g.lineTo(x(t), y(v)); else g.moveTo(x(t), y(v));
        joined = true;
      }
      g.stroke();
      if (future && future[i]) {
        g.strokeStyle = g.fillStyle = colours.future;
        g.beginPath();
        future[i].forEach(({ t, v }, k) => (k ? g.lineTo(x(t), y(v)) : g.moveTo(x(t), y(v))));
        g.stroke();
        for (const { t, v } of future[i]) { g.beginPath(); g.arc(x(t), y(v), 2, 0, 7); g.fill(); }
      }
      const newest = history.length ? history[history.length - 1].values[i] : undefined;
      g.fillStyle = colours.ink;
      g.fillText(one.name.replaceAll("_", " "), 4, top + 3);
      g.fillStyle = colours.soft;
      if (newest !== undefined && newest !== null) g.fillText(newest.toFixed(2), 4, top + 18);
    });
    if (events) {
      const top = head + lanes.length * lane, middle = top + lane / 2;
      g.fillStyle = colours.ink;
      g.fillText("events", 4, top + 3);
      for (const { t, name, strength, state } of events) {
        if (t < now - PAST || t > now + FUTURE) continue;
        g.strokeStyle = g.fillStyle = state === "off" ? colours.soft : colours.event;
        g.lineWidth = 2;
        g.beginPath();
        g.arc(x(t), middle, 3 + 6 * strength, 0, 7);
        if (state === "due") g.stroke(); else if (state === "off") { g.moveTo(x(t) - 5, middle - 5); g.lineTo(x(t) + 5, middle + 5); g.stroke(); } else g.fill();
        if (name !== "onset") g.fillText(name.replace(/^(cue|gesture)\/|\/enter$/g, ""), x(t) + 8, middle - 6);
      }
    }
    if (future) {
      g.strokeStyle = colours.soft;
      g.setLineDash([3, 3]);
      g.beginPath();
      g.moveTo(edge, 0);
      g.lineTo(edge, height);
      g.stroke();
      g.setLineDash([]);
      g.fillStyle = colours.soft;
      g.textAlign = "right";
      g.fillText("now", edge - 3, 3);
      g.fillText("+0.4 s", x(now + 0.4) + 16, 3);
      g.textAlign = "left";
    }
  }
}
