// The crash, to play with. All that is shown is in `data.steps`: what was on disk in real runs.
const PLACES = { log: "the source's log", checkpoint: "Spark's checkpoint", sink: "the sink's folder" };

function make(tag, attributes = {}, parent = null, text = "") {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.textContent = text;
  parent?.append(node);
  return node;
}

function render({ model, el }) {
  const { steps, lines } = model.get("data");
  // Otherwise JupyterLab takes arrow keys as commands and moves on to another cell.
  const root = make("div", { class: "explainer", "data-lm-suppress-shortcuts": "true" }, el);
  const path = make("div", { class: "controls", role: "group", "aria-label": "steps of the batch" }, root);
  const chips = steps.map((step, at) => button(path, `${at + 1} ${step.name}`, () => show(at, "now")));
  const buttons = make("div", { class: "controls", style: "margin-top: 8px" }, root);
  const back = button(buttons, "◀ back", () => show(at - 1, "now"));
  const next = button(buttons, "next step ▶", () => show(at + 1, "now"));
  const kill = button(buttons, "kill -9", () => show(at, "killed"), "kill");
  const restart = button(buttons, "restart", () => show(at, "restarted"));
  const told = make("p", { "aria-live": "polite", class: "told" }, root);
  const places = make("div", {}, root);
  const account = make("p", { "aria-live": "polite", class: "account" }, root);
  let at = 0, state = "now";

  function button(parent, text, action, kind = "") {
    const made = make("button", { type: "button", class: kind }, parent, text);
    made.addEventListener("click", action);
    return made;
  }

  function show(step, as) {
    const earlier = as === "restarted" ? steps[step].killed : as === "killed" ? steps[step].now : steps[step - 1]?.now;
    [at, state] = [step, as];
    chips.forEach((chip, place) => (place === at ? chip.setAttribute("aria-current", "step") : chip.removeAttribute("aria-current")));
    back.disabled = at === 0;
    next.disabled = at === steps.length - 1;
    kill.disabled = state !== "now";
    restart.disabled = state !== "killed";
    told.textContent = sentence();
    places.className = `places ${state}`;
    places.replaceChildren(...Object.keys(PLACES).map((place) => column(place, earlier?.[place])));
    account.textContent = count();
  }

  function sentence() {
    const { happened, repair } = steps[at];
    if (state === "now") return happened;
    if (state === "killed") return "The query is dead. It had no time to clean up. This is what it left on disk.";
    return `A new query has started with the same checkpoint. ${repair}`;
  }

  function column(place, earlier) {
    const files = steps[at][state][place];
    const box = make("div", { class: "place", "data-place": place });
    make("h4", {}, box, PLACES[place]);
    const gone = Object.keys(earlier ?? {}).filter((name) => !(name in files));
    for (const name of gone) file(box, name, [], "gone");
    for (const [name, items] of Object.entries(files)) {
      const same = JSON.stringify(earlier?.[name]) === JSON.stringify(items);
      file(box, name, items, earlier && !same ? "new" : "");
    }
    return box;
  }

  function file(box, name, items, kind) {
    const hidden = name.startsWith("staged") ? "hidden" : "";
    const entry = make("div", { class: `file ${kind} ${hidden}` }, box);
    make("code", {}, entry, name);
    entry.append(kind === "gone" ? " (gone)" : " ");
    for (const item of items) make("span", { class: `item ${lines.includes(item) ? "line" : "soft"}` }, entry, item);
  }

  function count() {
    const sink = Object.entries(steps[at][state].sink).filter(([name]) => name.startsWith("data"));
    const seen = sink.flatMap(([, items]) => items);
    const twice = seen.filter((line, place) => seen.indexOf(line) !== place).length;
    const missing = lines.filter((line) => !seen.includes(line)).length;
    const text = `A reader of the sink sees ${seen.length} of ${lines.length} lines.`;
    return state === "restarted" ? `${text} Lost: ${missing}. Twice: ${twice}.` : text;
  }

  root.addEventListener("keydown", ({ key }) => {
    const step = { ArrowLeft: at - 1, ArrowRight: at + 1 }[key];
    if (step in steps) show(step, "now");
  });
  show(0, "now");
}

export default { render };
