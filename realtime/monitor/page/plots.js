// Scrolling plots, one lane per value: the past to the left of the line "now", the forecast to the right.

import { surface } from "./canvas.js";

// Visible time, seconds.
const PAST = 6, FUTURE = 0.6;
// Least height of a lane in pixels: two lines of text.
const MIN_LANE = 32;
const label = (lane) => lane.name.replaceAll("_", " ");

/** The text if it is at most ``width`` pixels wide, else its beginning; nothing if that is too short to read. */
function fitted(g, text, width) {
  let length = text.length;
  const part = () => (length < text.length ? `${text.slice(0, length)}\u2026` : text);
  while (length && g.measureText(part()).width > width) length -= 1;
  return length > Math.min(1, text.length - 1) ? part() : "";
}

export class Plots {
  /** lanes: {name, low, high, title}[]; colour: key of the colours given to draw(). */
  constructor(canvas, lanes, colour) {
    this.canvas = canvas;
    this.lanes = lanes;
    this.colour = colour;
    canvas.addEventListener("pointermove", ({ offsetY }) => {
      const lane = this.lanes.find((_, i) => offsetY < this.headerHeight + (i + 1) * this.laneHeight);
      canvas.title = lane?.title ?? lane?.name ?? "";
    });
  }

  /**
   * now: time of the newest frame, seconds; history: {t, values}[]; future: {t, v}[] per lane, or null;
   * events: {t, name, strength, state}[] for a lane at the bottom, or null for none.
   */
  draw(now, history, future, events, colours) {
    // The labels of the time axis are in a header above the lanes.
    const { lanes } = this, headerHeight = future ? 18 : 0, count = lanes.length + (events ? 1 : 0);
    this.canvas.style.minHeight = `${headerHeight + count * MIN_LANE}px`;
    const { g, width, height } = surface(this.canvas), laneHeight = (height - headerHeight) / count;
    [this.headerHeight, this.laneHeight] = [headerHeight, laneHeight];
    // x of now. The time scale of the future is wider than that of the past, to show the forecast.
    const nowX = width * (future ? 0.7 : 1) - 1;
    g.font = "12px system-ui, sans-serif";
    g.textBaseline = "top";
    // Names and numbers are to the left of the past.
    const left = Math.min(150, 0.45 * width, Math.max(40, ...lanes.map((lane) => g.measureText(label(lane)).width)) + 12);
    const x = (t) => (t <= now ? nowX - ((now - t) / PAST) * (nowX - left) : nowX + ((t - now) / FUTURE) * (width - nowX));
    lanes.forEach((lane, i) => {
      const top = headerHeight + i * laneHeight, plotHeight = laneHeight - 4;
      const y = (v) => top + 2 + plotHeight * (1 - (Math.max(lane.low, Math.min(lane.high, v)) - lane.low) / (lane.high - lane.low));
      g.strokeStyle = colours.line;
      g.lineWidth = 1;
      g.beginPath();
      g.moveTo(0, top + laneHeight - 1);
      g.lineTo(width, top + laneHeight - 1);
      if (lane.low < 0) { g.moveTo(left, y(0)); g.lineTo(nowX, y(0)); }
      g.stroke();
      g.strokeStyle = colours[this.colour];
      g.lineWidth = 1.6;
      g.beginPath();
      let isConnected = false;
      for (const { t, values } of history) {
        const v = values[i];
        if (t < now - PAST || v === undefined || v === null) { isConnected = false; continue; }
        if (isConnected) g.lineTo(x(t), y(v)); else g.moveTo(x(t), y(v));
        isConnected = true;
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
      g.fillText(fitted(g, label(lane), left - 8), 4, top + 3);
      g.fillStyle = colours.soft;
      if (newest !== undefined && newest !== null) g.fillText(newest.toFixed(2), 4, top + 18);
    });
    if (events) {
      // Marks, and below them the names.
      const top = headerHeight + lanes.length * laneHeight, middle = top + Math.max(10, laneHeight / 2 - 8);
      g.fillStyle = colours.ink;
      g.fillText("events", 4, top + 3);
      const visible = events.filter(({ t }) => t >= now - PAST && t <= now + FUTURE).sort((one, other) => other.t - one.t);
      let end = width;
      for (const { t, name, strength, state } of visible) {
        g.strokeStyle = g.fillStyle = state === "off" ? colours.soft : colours.event;
        g.lineWidth = 2;
        g.beginPath();
        g.arc(x(t), middle, 3 + 6 * strength, 0, 7);
        if (state === "due") g.stroke(); else if (state === "off") { g.moveTo(x(t) - 5, middle - 5); g.lineTo(x(t) + 5, middle + 5); g.stroke(); } else g.fill();
        if (name === "onset") continue;
        g.fillText(fitted(g, name.replace(/^(cue|gesture)\/|\/enter$/g, ""), end - x(t)), x(t) - 3, middle + 10);
        end = x(t) - 9;
      }
    }
    if (future) {
      g.strokeStyle = colours.soft;
      g.setLineDash([3, 3]);
      g.beginPath();
      g.moveTo(nowX, 0);
      g.lineTo(nowX, height);
      g.stroke();
      g.setLineDash([]);
      g.fillStyle = colours.soft;
      g.textAlign = "right";
      g.fillText("now", nowX - 3, 3);
      g.fillText("+0.4 s", x(now + 0.4) + 16, 3);
      g.textAlign = "left";
    }
  }
}
