// The editor of the rig: one foldable section per output, with a field for every key that can be set during the show.

/** An element with these properties and children. */
export const make = (tag, properties = {}, ...children) => {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
};
const NAMES = { in: "range", half_life: "half-life s", min_cutoff: "cutoff Hz", send: "on", addresses: "address" };
const TITLES = { default: "default smoothing", param: "param: one message each", params: "params: all in one message", event: "event: all events and cues", class: "class: what is taught" };

export class Mapping {
  /** sendCommand(name, ...arguments) sends a command to the show. */
  constructor(section, sendCommand) {
    this.section = section;
    this.sendCommand = sendCommand;
    this.list = section.querySelector(".outputs");
    this.fields = new Map();
    this.meters = new Map();
    section.querySelector("#save").addEventListener("click", () => {
      const name = section.querySelector("#file").value.trim();
      sendCommand("rig/save", ...(name ? [name] : []));
    });
  }

  /** rig: {outputs, receivers, file, parts: descriptions of a bundle's parts, keys: [key, types, limits, values][]} */
  show(rig) {
    const file = this.section.querySelector("#file");
    file.placeholder = rig.file ? `${rig.file}, or a new name` : "a name for the rig";
    file.required = !rig.file;
    const shape = JSON.stringify([rig.outputs, rig.receivers, rig.keys.map(([key]) => key)]);
    if (shape !== this.shape) this.build(rig);
    this.shape = shape;
    for (const [key, , , values] of rig.keys) this.fields.get(key)?.show(values);
  }

  /** Sets the meters to the current values of the outputs, by name. */
  setValues(values) {
    for (const [name, value] of Object.entries(values)) {
      const meter = this.meters.get(name);
      if (meter) meter.value = value;
    }
  }

  build(rig) {
    this.fields.clear();
    this.meters.clear();
    const open = new Set([...this.list.querySelectorAll("details[open]")].map((section) => section.dataset.name));
    const keysOf = (name) => rig.keys.filter(([key]) => {
      const [table, ...rest] = key.split("/");
      return table === "osc" ? rest.slice(2).join("/").replace(/\/(low|high|curve|exponent)$/, "") === name : rest.slice(0, -1).join("/") === name;
    });
    /** A list of the section for an output; empty if it has no keys. */
    const makeSection = (name) => {
      const keys = keysOf(name);
      if (!keys.length) return [];
      const summary = make("summary", {}, make("span", { textContent: TITLES[name] ?? name.replace("taught/", ""), title: rig.parts[name] ?? "" }));
      if (rig.outputs.includes(name)) {
        const meter = make("meter", { min: 0, max: 1, ariaLabel: name });
        this.meters.set(name.replace("taught/", ""), meter);
        summary.append(meter);
      }
      const groups = new Map();
      for (const [key, types, limits] of keys) {
        const [table, number] = key.split("/");
        const title = table === "osc" ? rig.receivers[number] : table;
        if (!groups.has(title)) groups.set(title, make("fieldset", {}, make("legend", { textContent: title })));
        groups.get(title).append(this.field(key, name, types, limits));
      }
      const section = make("details", { open: open.has(name) }, summary, ...groups.values());
      section.dataset.name = name;
      return [section];
    };
    const parts = rig.keys.map(([key]) => key.match(/^osc\/\d+\/send\/(.+)$/)?.[1]).filter(Boolean);
    this.list.replaceChildren(...[...new Set([...rig.outputs, "default", ...parts])].flatMap(makeSection));
  }

  field(key, output, types, limits) {
    const name = key.split("/").pop(), setKey = (...values) => this.sendCommand(`rig/${key}`, ...values);
    const part = key.startsWith("osc/") ? key.split("/")[2] : "";
    const title = part === "send" || part === "addresses" ? NAMES[part] : NAMES[name] ?? name;
    const label = make("label", {}, make("span", { textContent: title }));
    const isChoice = Array.isArray(limits) && typeof limits[0] === "string";
    const inputs = [...types].map((type) => {
      if (isChoice) return make("select", {}, ...limits.map((choice) => make("option", { textContent: choice })));
      const input = make("input", { type: type === "T" ? "checkbox" : type === "s" ? "text" : "number" });
      if (input.type === "number") Object.assign(input, { step: type === "i" ? 1 : "any", ...(limits ? { min: limits[0], max: limits[1] } : {}) });
      return input;
    });
    // Whether the last key stepped the value, which keeps the focus.
    let isStepping = false;
    for (const input of inputs) {
      input.dataset.key = key;
      input.ariaLabel = `${output} ${title}`;
      input.addEventListener("keydown", (e) => { isStepping = /^(Arrow|Page|Home|End)/.test(e.key); });
      input.addEventListener("change", () => {
        const values = inputs.flatMap((field) => {
          if (field.type === "checkbox") return [field.checked];
          // An address, optionally followed by constant arguments.
          if (field.type === "text") return field.value.trim().split(/\s+/).filter(Boolean).map((word, i) => (i && Number.isFinite(Number(word)) ? Number(word) : word));
          return field.value === "" ? [] : [isChoice ? field.value : Number(field.value)];
        });
        setKey(...(values.length < inputs.length ? [] : values));
        if (document.activeElement === input && input.type !== "checkbox" && !isStepping) input.blur();
      });
    }
    label.append(...inputs);
    if (types === "ff") label.append(this.learnButton(output));
    this.fields.set(key, { show: (values) => inputs.forEach((field, i) => {
      if (document.activeElement === field && field.type !== "checkbox") return;
      if (field.type === "checkbox") field.checked = Boolean(values[i]);
      else if (field.type === "text") field.value = values.join(" ");
      else field.value = values[i] === undefined ? "" : typeof values[i] === "number" ? +values[i].toFixed(4) : values[i];
    }) });
    return label;
  }

  /** A button that learns the range of an output while it is held. */
  learnButton(output) {
    const button = make("button", { type: "button", textContent: "Learn", title: "hold it while the performer moves" });
    button.dataset.learn = output;
    const set = (on) => {
      if (button.classList.contains("on") === on) return;
      button.classList.toggle("on", on);
      this.sendCommand(`learn/${output}`, on);
    };
    button.addEventListener("pointerdown", (e) => { button.setPointerCapture(e.pointerId); set(true); });
    for (const end of ["pointerup", "pointercancel", "blur"]) button.addEventListener(end, () => set(false));
    button.addEventListener("keydown", (e) => { if (e.key === " " && !e.repeat) set(true); });
    button.addEventListener("keyup", (e) => { if (e.key === " ") set(false); });
    button.addEventListener("contextmenu", (e) => e.preventDefault());
    return button;
  }
}
