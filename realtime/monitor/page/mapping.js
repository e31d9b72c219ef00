// The rig edited by hand: one fold for each output, in it a field for every key that the show says can be set.

const make = (tag, of = {}, ...inside) => {
  const made = Object.assign(document.createElement(tag), of);
  made.append(...inside);
  return made;
};
const NAMES = { in: "range", half_life: "half-life s", min_cutoff: "cutoff Hz", send: "on", addresses: "address" };
const TITLES = { default: "default smoothing", param: "param: one message each", params: "params: all in one message", event: "event: all events and cues", class: "class: what is taught" };

export class Mapping {
  /** tell(command, ...arguments) speaks to the show. */
  constructor(section, tell) {
    this.section = section;
    this.tell = tell;
    this.list = section.querySelector(".outputs");
    this.fields = new Map();
    this.meters = new Map();
    section.querySelector("#save").addEventListener("click", () => {
      const name = section.querySelector("#file").value.trim();
      tell("rig/save", ...(name ? [name] : []));
    });
  }

  /** told: {outputs, receivers, file, parts: what a bundle's parts mean, keys: [key, types, limits, values][]} */
  show(told) {
    const file = this.section.querySelector("#file");
    file.placeholder = told.file ? `${told.file}, or a new name` : "a name for the rig";
    file.required = !told.file;
    const shape = JSON.stringify([told.outputs, told.receivers, told.keys.map(([key]) => key)]);
    if (shape !== this.shape) this.build(told);
    this.shape = shape;
    for (const [key, , , values] of told.keys) this.fields.get(key)?.show(values);
  }

  /** Where the outputs stand, by name. */
  stand(values) {
    for (const [name, value] of Object.entries(values)) {
      const meter = this.meters.get(name);
      if (meter) meter.value = value;
    }
  }

  build(told) {
    this.fields.clear();
    this.meters.clear();
    const open = new Set([...this.list.querySelectorAll("details[open]")].map((fold) => fold.dataset.name));
    const of = (name) => told.keys.filter(([key]) => {
      const [table, ...rest] = key.split("/");
      return table === "osc" ? rest.slice(2).join("/").replace(/\/(low|high|curve|exponent)$/, "") === name : rest.slice(0, -1).join("/") === name;
    });
    const fold = (name) => {
      const keys = of(name);
      if (!keys.length) return [];
      const summary = make("summary", {}, make("span", { textContent: TITLES[name] ?? name.replace("taught/", ""), title: told.parts[name] ?? "" }));
      if (told.outputs.includes(name)) {
        const meter = make("meter", { min: 0, max: 1, ariaLabel: name });
        this.meters.set(name.replace("taught/", ""), meter);
        summary.append(meter);
      }
      const groups = new Map();
      for (const [key, types, limits] of keys) {
        const [table, number] = key.split("/");
        const title = table === "osc" ? told.receivers[number] : table;
        if (!groups.has(title)) groups.set(title, make("fieldset", {}, make("legend", { textContent: title })));
        groups.get(title).append(this.field(key, name, types, limits));
      }
      const made = make("details", { open: open.has(name) }, summary, ...groups.values());
      made.dataset.name = name;
      return [made];
    };
    const sent = told.keys.map(([key]) => key.match(/^osc\/\d+\/send\/(.+)$/)?.[1]).filter(Boolean);
    this.list.replaceChildren(...[...new Set([...told.outputs, "default", ...sent])].flatMap(fold));
  }

  field(key, output, types, limits) {
    const name = key.split("/").pop(), say = (...values) => this.tell(`rig/${key}`, ...values);
    const part = key.startsWith("osc/") ? key.split("/")[2] : "";
    const title = part === "send" || part === "addresses" ? NAMES[part] : NAMES[name] ?? name;
    const label = make("label", {}, make("span", { textContent: title }));
    const words = Array.isArray(limits) && typeof limits[0] === "string";
    const inputs = [...types].map((type) => {
      if (words) return make("select", {}, ...limits.map((word) => make("option", { textContent: word })));
      const input = make("input", { type: type === "T" ? "checkbox" : type === "s" ? "text" : "number" });
      if (input.type === "number") Object.assign(input, { step: type === "i" ? 1 : "any", ...(limits ? { min: limits[0], max: limits[1] } : {}) });
      return input;
    });
    let steps = false;
    for (const input of inputs) {
      input.dataset.key = key;
      input.ariaLabel = `${output} ${title}`;
      input.addEventListener("keydown", (e) => { steps = /^(Arrow|Page|Home|End)/.test(e.key); });
      input.addEventListener("change", () => {
        const values = inputs.flatMap((one) => {
          if (one.type === "checkbox") return [one.checked];
          // An address may have words before the value behind it.
          if (one.type === "text") return one.value.trim().split(/\s+/).filter(Boolean).map((word, i) => (i && Number.isFinite(Number(word)) ? Number(word) : word));
          return one.value === "" ? [] : [words ? one.value : Number(one.value)];
        });
        say(...(values.length < inputs.length ? [] : values));
        if (document.activeElement === input && input.type !== "checkbox" && !steps) input.blur();
      });
    }
    label.append(...inputs);
    if (types === "ff") label.append(this.learn(output));
    this.fields.set(key, { show: (values) => inputs.forEach((one, i) => {
      if (document.activeElement === one && one.type !== "checkbox") return;
      if (one.type === "checkbox") one.checked = Boolean(values[i]);
      else if (one.type === "text") one.value = values.join(" ");
      else one.value = values[i] === undefined ? "" : typeof values[i] === "number" ? +values[i].toFixed(4) : values[i];
    }) });
    return label;
  }

  /** Held while the performer moves: how far the output goes is its range. */
  learn(output) {
    const button = make("button", { type: "button", textContent: "Learn", title: "hold it while the performer moves" });
    button.dataset.learn = output;
    const set = (on) => {
      if (button.classList.contains("on") === on) return;
      button.classList.toggle("on", on);
      this.tell(`learn/${output}`, on);
    };
    button.addEventListener("pointerdown", (e) => { button.setPointerCapture(e.pointerId); set(true); });
    for (const end of ["pointerup", "pointercancel", "blur"]) button.addEventListener(end, () => set(false));
    button.addEventListener("keydown", (e) => { if (e.key === " " && !e.repeat) set(true); });
    button.addEventListener("keyup", (e) => { if (e.key === " ") set(false); });
    button.addEventListener("contextmenu", (e) => e.preventDefault());
    return button;
  }
}
