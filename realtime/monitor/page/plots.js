// Scrolling plots, one lane per value: the past to the left of the line "now", the forecast to the right.

import { surface } from "./canvas.js";

// Visible time, seconds.
const PAST = 6, FUTURE = 0.6;

export class Plots {
  /** lanes: {name, low, high, title}[]; colour: key of the colours given to draw(). */
  constructor(canvas, lanes, colour) {
    this.canvas = canvas;
    this.lanes = lanes;
    this.colour = colour;
    canvas.addEventListener("pointermove", ({ offsetY }) => {
      const lane = this.lanes.find((_, i) => offsetY < this.headerHeight + (i + 1) * this.laneHeight);
      canvas.title = lane?.title ?? "";
    });
  }

  /**
   * now: time of the newest frame, seconds; history: {t, values}[]; future: {t, v}[] per lane, or null;
   * events: {t, name, strength, state}[] for a lane at the bottom, or null for none.
   */
  draw(now, history, future, events, colours) {
    const { lanes } = this, { g, width, height } = surface(this.canvas);
    // The labels of the time axis are in a header above the lanes.
    const headerHeight = future ? 18 : 0, count = lanes.length + (events ? 1 : 0), laneHeight = (height - headerHeight) / count;
    [this.headerHeight, this.laneHeight] = [headerHeight, laneHeight];
    // x of now. The time scale of the future is wider than that of the past, to show the forecast.
    const nowX = width * (future ? 0.7 : 1) - 1;
    // Names and numbers are to the left of the past.
    const left = Math.min(130, 0.3 * width);
    const x = (t) => (t <= now ? nowX - ((now - t) / PAST) * (nowX - left) : nowX + ((t - now) / FUTURE) * (width - nowX));
    g.font = "12px system-ui, sans-serif";
    g.textBaseline = "top";
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
      g.fillText(lane.name.replaceAll("_", " "), 4, top + 3);
      g.fillStyle = colours.soft;
      if (newest !== undefined && newest !== null) g.fillText(newest.toFixed(2), 4, top + 18);
    });
    if (events) {
      const top = headerHeight + lanes.length * laneHeight, middle = top + laneHeight / 2;
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
