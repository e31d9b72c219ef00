// The body: where its joints are (y up), drawn as lines, turned by dragging.

import { surface } from "./canvas.js";

export class Body {
  constructor(canvas, hello) {
    this.canvas = canvas;
    this.hello = hello;
    this.yaw = 0.5;
    this.pitch = 0.15;
    let from = null;
    canvas.addEventListener("pointerdown", (e) => { from = [e.clientX, e.clientY]; canvas.setPointerCapture(e.pointerId); });
    canvas.addEventListener("pointerup", () => { from = null; });
    canvas.addEventListener("pointermove", (e) => {
      if (!from) return;
      this.yaw += (e.clientX - from[0]) / 120;
      this.pitch = Math.max(-0.3, Math.min(1.4, this.pitch + (e.clientY - from[1]) / 200));
      from = [e.clientX, e.clientY];
    });
  }

  /** at: where the joints are, or null; ghosts: where they will be, the nearest first; own: {parents, places}
   * of the suit's own joints, drawn to the right of the canonical body; or null. */
  draw(at, ghosts, colours, own) {
    const { g, width, height } = surface(this.canvas);
    const scale = height / 2.3, cy = Math.cos(this.yaw), sy = Math.sin(this.yaw), cp = Math.cos(this.pitch), sp = Math.sin(this.pitch);
    let centre = at ? [at[0][0], 0, at[0][2]] : [0, 0, 0], middle = own ? 0.3 * width : width / 2;
    const flat = (v) => {
      const x = v[0] - centre[0], z = v[2] - centre[2], depth = -sy * x + cy * z;
      return [middle + scale * (cy * x + sy * z), height * 0.9 - scale * (cp * v[1] - sp * depth)];
    };
    const line = (a, b) => { g.moveTo(...flat(a)); g.lineTo(...flat(b)); };
    g.strokeStyle = colours.line;
    g.lineWidth = 1;
    g.beginPath();
    // The floor: squares of half a metre that stay where they are while the body walks.
    const near = (v) => Math.round(v * 2) / 2;
    for (let k = -3; k <= 3; k++) {
      const x = near(centre[0]) + k / 2, z = near(centre[2]) + k / 2;
      line([x, 0, near(centre[2]) - 1.5], [x, 0, near(centre[2]) + 1.5]);
      line([near(centre[0]) - 1.5, 0, z], [near(centre[0]) + 1.5, 0, z]);
    }
    g.stroke();
    if (!at) return;
    const bones = (at, colour, wide) => {
      g.strokeStyle = colour;
      g.lineWidth = wide;
      g.lineCap = "round";
      g.beginPath();
      this.hello.parents.forEach((p, j) => { if (p >= 0) line(at[p], at[j]); });
      g.stroke();
      const head = this.hello.joints.indexOf("head");
      if (head < 0) return;
      const [x, y] = flat(at[head]);
      g.beginPath();
      g.arc(x, y - 0.06 * scale, 0.09 * scale, 0, 7);
      g.stroke();
    };
    [...ghosts].reverse().forEach((at, n) => {
      g.globalAlpha = 0.6 / (ghosts.length - n);
      bones(at, colours.future, 3);
    });
    g.globalAlpha = 1;
    bones(at, colours.ink, 4);
    if (!own) return;
    const { parents, places } = own, first = places[parents.indexOf(-1)];
    centre = [first[0], 0, first[2]];
    middle = 0.75 * width;
    g.strokeStyle = g.fillStyle = colours.scalar;
    g.lineWidth = 3;
    g.beginPath();
    parents.forEach((p, j) => { if (p >= 0) line(places[p], places[j]); });
    g.stroke();
    for (const place of places) { g.beginPath(); g.arc(...flat(place), 2.5, 0, 7); g.fill(); }
  }
}
