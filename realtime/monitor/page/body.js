// Draws the body from its joint positions (y up); dragging turns the view.

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

  /** positions: of the joints, or null; ghosts: forecast positions, soonest first; suitBody: {parents, places} of the
   * suit's own joints, drawn to the right of the canonical body, or null. */
  draw(positions, ghosts, colours, suitBody) {
    const { g, width, height } = surface(this.canvas);
    const scale = height / 2.3, cy = Math.cos(this.yaw), sy = Math.sin(this.yaw), cp = Math.cos(this.pitch), sp = Math.sin(this.pitch);
    let centre = positions ? [positions[0][0], 0, positions[0][2]] : [0, 0, 0], middle = suitBody ? 0.3 * width : width / 2;
    const flat = (v) => {
      const x = v[0] - centre[0], z = v[2] - centre[2], depth = -sy * x + cy * z;
      return [middle + scale * (cy * x + sy * z), height * 0.9 - scale * (cp * v[1] - sp * depth)];
    };
    const line = (a, b) => { g.moveTo(...flat(a)); g.lineTo(...flat(b)); };
    g.strokeStyle = colours.line;
    g.lineWidth = 1;
    g.beginPath();
    // The floor: a grid of half a metre, fixed in the world.
    const snap = (v) => Math.round(v * 2) / 2;
    for (let k = -3; k <= 3; k++) {
      const x = snap(centre[0]) + k / 2, z = snap(centre[2]) + k / 2;
      line([x, 0, snap(centre[2]) - 1.5], [x, 0, snap(centre[2]) + 1.5]);
      line([snap(centre[0]) - 1.5, 0, z], [snap(centre[0]) + 1.5, 0, z]);
    }
    g.stroke();
    if (!positions) return;
    const drawBones = (joints, colour, lineWidth) => {
      g.strokeStyle = colour;
      g.lineWidth = lineWidth;
      g.lineCap = "round";
      g.beginPath();
      this.hello.parents.forEach((p, j) => { if (p >= 0) line(joints[p], joints[j]); });
      g.stroke();
      const head = this.hello.joints.indexOf("head");
      if (head < 0) return;
      const [x, y] = flat(joints[head]);
      g.beginPath();
      g.arc(x, y - 0.06 * scale, 0.09 * scale, 0, 7);
      g.stroke();
    };
    [...ghosts].reverse().forEach((joints, n) => {
      g.globalAlpha = 0.6 / (ghosts.length - n);
      drawBones(joints, colours.future, 3);
    });
    g.globalAlpha = 1;
    drawBones(positions, colours.ink, 4);
    if (!suitBody) return;
    const { parents, places } = suitBody, first = places[parents.indexOf(-1)];
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
