// The watermark, to play with. All that is drawn is in `data.runs`: what real queries did.
const WIDTH = 760, HEIGHT = 380, LEFT = 44, RIGHT = 610, TOP = 14, BOTTOM = 330, SECONDS = 50;

function make(tag, attributes = {}, parent = null, text = "") {
  const svg = ["svg", "g", "rect", "line", "path", "circle", "text"].includes(tag);
  const node = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.textContent = text;
  parent?.append(node);
  return node;
}

const rows = (count) => (count === 1 ? "1 row" : `${count} rows`);

function render({ model, el }) {
  const { arrivals, window: size, runs, ...chosen } = model.get("data");
  const choices = { delay: unique("delay"), second: unique("second") };
  const dragged = arrivals.indexOf(null);
  // Otherwise JupyterLab takes arrow keys as commands and moves on to another cell.
  const root = make("div", { class: "explainer", "data-lm-suppress-shortcuts": "true" }, el);
  make("p", { class: "soft" }, root, `Drag row ${dragged + 1} up or down, or the watermark. The rows arrive from left to right.`);
  const svg = make("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img" }, root);
  const controls = make("div", { class: "controls" }, root);
  const sliders = {
    second: slider("second", `row ${dragged + 1} happened at second`),
    delay: slider("delay", "delay of the watermark, in seconds"),
  };
  const told = make("p", { "aria-live": "polite", class: "told" }, root);
  let grabbed = null;

  function unique(name) {
    return [...new Set(runs.map((run) => run[name]))].sort((a, b) => a - b);
  }

  function slider(name, text) {
    const label = make("label", {}, controls, text);
    const last = choices[name].length - 1;
    const input = make("input", { type: "range", min: 0, max: last, step: 1, name }, label);
    const shown = make("output", {}, label);
    input.addEventListener("input", () => choose(name, choices[name][input.value]));
    return { input, shown };
  }

  function choose(name, wanted) {
    const near = (a, b) => (Math.abs(a - wanted) <= Math.abs(b - wanted) ? a : b);
    chosen[name] = choices[name].reduce(near);
    draw();
  }

  const x = (row) => LEFT + ((row + 0.6) * (RIGHT - LEFT)) / arrivals.length;
  const y = (second) => BOTTOM - (second * (BOTTOM - TOP)) / SECONDS;
  const secondAt = (height) => ((BOTTOM - height) * SECONDS) / (BOTTOM - TOP);
  const times = () => arrivals.map((time) => time ?? chosen.second);
  const newest = (row) => Math.max(...times().slice(0, row + 1));
  const now = () => runs.find((run) => run.delay === chosen.delay && run.second === chosen.second);

  function verdict(row, steps) {
    const before = row ? steps[row - 1].watermark : null;
    if (steps[row].dropped) return "dropped";
    return before !== null && times()[row] < before ? "behind" : "counted";
  }

  function draw() {
    const { steps } = now();
    const verdicts = steps.map((_, row) => verdict(row, steps));
    svg.replaceChildren();
    for (let start = 0; start < SECONDS; start += size) drawWindow(start, steps, verdicts);
    make("text", { x: 0, y: TOP, class: "soft" }, svg, "event time in seconds");
    drawWatermark(steps);
    verdicts.forEach(drawRow);
    for (const [name, { input, shown }] of Object.entries(sliders)) {
      input.value = choices[name].indexOf(chosen[name]);
      input.setAttribute("aria-valuetext", `${chosen[name]} seconds`);
      shown.textContent = chosen[name];
    }
    told.textContent = sentence(steps, verdicts);
    svg.setAttribute("aria-label", told.textContent);
  }

  function drawWindow(start, steps, verdicts) {
    const top = y(start + size), middle = y(start + size / 2) + 4;
    make("line", { class: "grid", x1: LEFT, x2: WIDTH, y1: y(start), y2: y(start) }, svg);
    make("text", { x: LEFT - 6, y: y(start) + 4, "text-anchor": "end", class: "soft" }, svg, start);
    const inside = (time) => time >= start && time < start + size;
    const open = times().filter((time, row) => inside(time) && verdicts[row] !== "dropped").length;
    const at = steps.findIndex((step) => step.closed.some(([closed]) => closed === start));
    const count = at < 0 ? open : steps[at].closed.find(([closed]) => closed === start)[1];
    if (at >= 0) make("rect", { class: "closed", x: x(at), y: top, width: WIDTH - x(at), height: y(start) - top }, svg);
    const text = at < 0 ? (open ? `open: ${rows(count)}` : "") : `closed: ${rows(count)}`;
    make("text", { x: WIDTH - 8, y: middle, "text-anchor": "end", class: at < 0 ? "soft" : "" }, svg, text);
  }

  function drawWatermark(steps) {
    const heights = steps.map((step) => Math.min(y(step.watermark), BOTTOM));
    const end = RIGHT + 10;
    const line = heights.map((height, row) => `${row ? "V" : `M${x(row)} `}${height} H${row + 1 < steps.length ? x(row + 1) : end}`);
    make("path", { class: "mark", d: line.join(" ") }, svg);
    const last = heights.length - 1, high = y(newest(last));
    make("line", { class: "wait", x1: end, x2: end, y1: high, y2: heights[last] }, svg);
    const grip = { class: "grip", "data-grip": "delay" };
    make("path", { d: line.join(" "), fill: "none", stroke: "transparent", "stroke-width": 18, ...grip }, svg);
    make("text", { x: end + 5, y: heights[last] - 5, ...grip }, svg, "watermark ↕");
  }

  function drawRow(name, row) {
    const [cx, cy] = [x(row), y(times()[row])];
    const isDragged = row === dragged;
    const place = make("g", isDragged ? { class: "grip", "data-grip": "second" } : {}, svg);
    if (isDragged) {
      make("circle", { cx, cy, r: 20, fill: "transparent" }, place);
      make("text", { x: cx, y: cy - 13, "text-anchor": "middle" }, place, "▲");
      make("text", { x: cx, y: cy + 22, "text-anchor": "middle" }, place, "▼");
    }
    const cross = `M${cx - 6} ${cy - 6} l12 12 m0 -12 l-12 12`;
    if (name === "dropped") make("path", { class: name, d: cross }, place);
    else make("circle", { class: name, cx, cy, r: isDragged ? 9 : 7 }, place);
    make("text", { x: cx, y: BOTTOM + 18, "text-anchor": "middle" }, svg, `row ${row + 1}`);
    const text = { counted: "counted", behind: "still counted", dropped: "dropped" }[name];
    make("text", { x: cx, y: BOTTOM + 34, "text-anchor": "middle", class: "soft", "data-row": row + 1 }, svg, text);
  }

  function sentence(steps, verdicts) {
    const second = chosen.second, start = second - (second % size), before = steps[dragged - 1].watermark;
    const where = `Row ${dragged + 1} comes from second ${second}. The watermark is at ${before < 0 ? "a time before 0" : `second ${before}`} then`;
    const why = {
      counted: "so the row is on time.",
      behind: `so the row is behind it. But its window, ${start} to ${start + size}, is open: the row is counted.`,
      dropped: `and its window, ${start} to ${start + size}, is closed: the row is dropped.`,
    }[verdicts[dragged]];
    const closed = steps.flatMap((step) => step.closed).length;
    const dropped = verdicts.filter((name) => name === "dropped").length;
    return `${where}, ${why} Dropped: ${rows(dropped)}. Closed windows: ${closed}.`;
  }

  svg.addEventListener("pointerdown", (event) => {
    grabbed = event.target.closest("[data-grip]")?.dataset.grip ?? null;
    if (grabbed) svg.setPointerCapture(event.pointerId);
  });
  svg.addEventListener("pointermove", (event) => {
    if (!grabbed) return;
    const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    const row = arrivals.findLastIndex((_, at) => x(at) <= Math.max(point.x, x(0)));
    const second = secondAt(point.y);
    choose(grabbed, grabbed === "delay" ? newest(row) - second : second);
  });
  svg.addEventListener("pointerup", () => (grabbed = null));
  draw();
}

export default { render };
