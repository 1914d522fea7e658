"use strict";
// The map of real and simulated points. Everything is drawn into one pixel buffer, so that 100,000 points pan and zoom
// without a graphics card; the data is the JSON in the element "data", its arrays in base64.
const DATA = JSON.parse(document.getElementById("data").textContent);
const NONE = 255;
const dark = window.matchMedia("(prefers-color-scheme: dark)");
let theme = null; // colours are stored as ABGR
function useTheme() {
  theme = dark.matches
    ? { back: 0xff2b231b, sim: 0xff90714f, real: 0xff5f92e8, chosen: 0xffffffff, ink: "#e4eaf0", soft: "#9fadba", fill: "#e4eaf018" }
    : { back: 0xffffffff, sim: 0xffd8c3ab, real: 0xff4d7dd9, chosen: 0xff000000, ink: "#22303c", soft: "#5d6b78", fill: "#22303c18" };
}
useTheme();
const REGIONS = [0xff2f2fd3, 0xffa0399c, 0xff3c8e38, 0xff0097e6, 0xff8a7b00, 0xff5c5cff, 0xff6b4a2b, 0xff9b1fd0];
const byId = (id) => document.getElementById(id);
const canvas = byId("map"), overlay = byId("overlay");
const state = { level: null, x: "map 1", y: "map 2", region: null, show: { sim: true, real: true }, tool: "move",
  lasso: null, chosen: null, picked: null, view: null, frames: 0, lastDraw: 0 };

function decode(text, kind) {
  const raw = atob(text), bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  return new kind(bytes.buffer);
}

function makeLevel(source) {
  const level = { name: source.name, count: source.count, side: decode(source.side, Uint8Array),
    region: decode(source.region, Uint8Array), episode: decode(source.episode, Uint32Array),
    frame: decode(source.frame, Uint32Array), score: decode(source.score, Uint8Array), columns: new Map() };
  level.real = level.side.indexOf(1) < 0 ? level.count : level.side.indexOf(1); // real points come first
  for (const column of source.columns) level.columns.set(column.name, { ...column, codes: decode(column.codes, Uint16Array) });
  return level;
}

const MISSING = 65535;
function valueOf(column, i) {
  return column.codes[i] === MISSING ? NaN : column.low + column.codes[i] * column.step;
}

const levels = new Map(DATA.levels.map((one) => [one.name, makeLevel(one)]));

// ---- view: data to screen -----------------------------------------------------------------------------------------

function axes() {
  return [state.level.columns.get(state.x), state.level.columns.get(state.y)];
}

function fitView() {
  const bounds = axes().map((column) => {
    const pad = 0.04 * (column.high - column.low || 1);
    return [column.low - pad, column.high + pad];
  });
  state.view = { x0: bounds[0][0], x1: bounds[0][1], y0: bounds[1][0], y1: bounds[1][1] };
}

function resize() {
  const box = canvas.parentElement.getBoundingClientRect(), ratio = window.devicePixelRatio || 1;
  for (const one of [canvas, overlay]) {
    one.width = Math.max(50, Math.round(box.width * ratio));
    one.height = Math.max(50, Math.round(box.height * ratio));
  }
  draw();
}

function visible(level, i) {
  const real = level.side[i] === 0;
  if (!(real ? state.show.real : state.show.sim)) return false;
  return state.region === null || !real || level.region[i] === state.region;
}

let buffer = null; // kept between frames: the image and its pixels
function blank(context, width, height) {
  if (!buffer || buffer.image.width !== width || buffer.image.height !== height) {
    const image = context.createImageData(width, height);
    buffer = { image, pixels: new Uint32Array(image.data.buffer) };
  }
  buffer.pixels.fill(theme.back);
  return buffer;
}

function draw() {
  const began = performance.now();
  const context = canvas.getContext("2d"), width = canvas.width, height = canvas.height;
  const { image, pixels } = blank(context, width, height);
  const level = state.level, [cx, cy] = axes(), view = state.view, xs = cx.codes, ys = cy.codes, regions = level.region;
  const kx = width / (view.x1 - view.x0), ky = height / (view.y1 - view.y0);
  const ax = cx.step * kx, bx = (cx.low - view.x0) * kx, ay = -cy.step * ky, by = height - (cy.low - view.y0) * ky;
  const ratio = window.devicePixelRatio || 1, few = level.count < 3000 ? 2 : 0, chosen = state.chosen, only = state.region;
  const paint = (from, to, size, sim) => {
    const right = width - size, bottom = height - size;
    for (let i = from; i < to; i++) {
      const region = regions[i];
      if (xs[i] === MISSING || ys[i] === MISSING || (!sim && only !== null && region !== only)) continue;
      const px = (xs[i] * ax + bx) | 0, py = (ys[i] * ay + by) | 0;
      if (px < 0 || py < 0 || px >= right || py >= bottom) continue;
      let colour = sim ? theme.sim : region === NONE ? theme.real : REGIONS[region % REGIONS.length];
      if (chosen !== null && chosen[i]) colour = theme.chosen;
      for (let row = py * width + px, last = row + size * width; row < last; row += width)
        for (let k = 0; k < size; k++) pixels[row + k] = colour;
    }
  };
  if (state.show.sim) paint(level.real, level.count, Math.round((2 + few) * ratio), true); // real points lie on top
  if (state.show.real) paint(0, level.real, Math.round((3 + few) * ratio), false);
  context.putImageData(image, 0, 0);
  drawAxes(context, width, height, ratio);
  drawOverlay();
  state.frames += 1;
  state.lastDraw = performance.now() - began;
}

function ticks(low, high) {
  const rough = (high - low) / 6, base = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * base).find((s) => s >= rough), found = [];
  for (let v = Math.ceil(low / step) * step; v <= high; v += step) found.push(Math.abs(v) < step * 1e-6 ? 0 : v);
  return found;
}

const short = (value) => String(Number(value.toPrecision(3)));

function drawAxes(context, width, height, ratio) {
  const [cx, cy] = axes(), view = state.view;
  context.font = `${11 * ratio}px system-ui, sans-serif`;
  context.fillStyle = theme.soft;
  for (const v of ticks(view.x0, view.x1)) {
    const px = ((v - view.x0) / (view.x1 - view.x0)) * width;
    context.fillRect(px, height - 4 * ratio, 1, 4 * ratio);
    if (cx.unit !== null) context.fillText(short(v), px + 3 * ratio, height - 4 * ratio);
  }
  for (const v of ticks(view.y0, view.y1)) {
    const py = height - ((v - view.y0) / (view.y1 - view.y0)) * height;
    context.fillRect(0, py, 4 * ratio, 1);
    if (cy.unit !== null) context.fillText(short(v), 6 * ratio, py - 2 * ratio);
  }
  const named = (column) => legible(column.unit ? `${column.name}, ${column.unit}` : column.name);
  context.fillStyle = theme.ink;
  context.textAlign = "right";
  context.fillText(`${named(cx)} →`, width - 8 * ratio, height - 20 * ratio);
  context.textAlign = "left";
  context.fillText(`↑ ${named(cy)}`, 30 * ratio, 16 * ratio);
}

function place(i) {
  const [cx, cy] = axes(), view = state.view;
  return [((valueOf(cx, i) - view.x0) / (view.x1 - view.x0)) * canvas.width,
    canvas.height - ((valueOf(cy, i) - view.y0) / (view.y1 - view.y0)) * canvas.height];
}

function drawOverlay() {
  const context = overlay.getContext("2d"), ratio = window.devicePixelRatio || 1;
  context.clearRect(0, 0, overlay.width, overlay.height);
  if (state.lasso && state.lasso.length > 1) {
    context.beginPath();
    state.lasso.forEach(([x, y], k) => (k ? context.lineTo(x, y) : context.moveTo(x, y)));
    context.closePath();
    context.fillStyle = theme.fill;
    context.strokeStyle = theme.ink;
    context.lineWidth = 1.5 * ratio;
    context.fill();
    context.stroke();
  }
  if (state.picked !== null) {
    const [x, y] = place(state.picked);
    context.beginPath();
    context.arc(x, y, 9 * ratio, 0, 2 * Math.PI);
    context.strokeStyle = theme.ink;
    context.lineWidth = 2 * ratio;
    context.stroke();
  }
}

let waiting = false;
function redraw() { // at most once per screen refresh
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => { waiting = false; draw(); });
}

// ---- a point: its episode and frame -------------------------------------------------------------------------------

function nearest(x, y) {
  const level = state.level, reach = 12 * (window.devicePixelRatio || 1);
  let best = null, least = reach * reach;
  for (let i = 0; i < level.count; i++) {
    if (!visible(level, i)) continue;
    const [px, py] = place(i), far = (px - x) ** 2 + (py - y) ** 2 + (level.side[i] ? 4 : 0);
    if (far < least) { least = far; best = i; }
  }
  return best;
}

// Names come from files of others: invisible characters, such as those that turn the direction of writing, are written out,
// and commands to copy are quoted for the shell.
const INVISIBLE = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;
const legible = (content) => content.replace(INVISIBLE, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);
const quoted = (word) => {
  if (/^[\w@%+=:,./#-]+$/.test(word)) return word;
  if (word.search(INVISIBLE) < 0) return `'${word.replaceAll("'", "'\\''")}'`;
  return `$'${legible(word.replace(/[\\']/g, "\\$&"))}'`;
};

function text(tag, content, name) {
  const made = document.createElement(tag);
  made.textContent = tag === "pre" ? content : legible(content);
  if (name) made.className = name;
  return made;
}

function showPoint(i) {
  state.picked = i;
  const level = state.level, panel = byId("point");
  panel.replaceChildren();
  const side = DATA.sides[level.side[i]], number = side.numbers[level.episode[i]];
  const ended = side.ended[level.episode[i]];
  panel.append(text("h3", `${side.role} · ${side.name}#${number}, frame ${level.frame[i]}`));
  panel.append(text("div", ended, ended.startsWith("failed") ? "badge blocking" : "badge fine"));
  const shot = imageOf(level.side[i], level.episode[i], level.frame[i]);
  if (shot) {
    const image = document.createElement("img");
    image.src = shot.source;
    image.alt = `frame ${shot.frame} of episode ${number}`;
    panel.append(image, text("div", `camera ${shot.camera}, frame ${shot.frame}`, "soft"));
  }
  if (level.region[i] !== NONE) panel.append(text("p", `Outside: ${DATA.regions[level.region[i]].name}`));
  else if (level.side[i] === 0 && level.score[i] > 100) panel.append(text("p", `Far from simulation: ${level.score[i]} % of the threshold`));
  const table = document.createElement("table");
  for (const column of level.columns.values()) {
    if (column.unit === null) continue;
    const row = document.createElement("tr"), value = valueOf(column, i);
    row.append(text("td", column.name), text("td", Number.isNaN(value) ? "–" : `${short(value)} ${column.unit}`, "n"));
    table.append(row);
  }
  panel.append(text("pre", `twinloop data show ${quoted(`${side.name}#${number}`)}`), table);
  drawOverlay();
}

function imageOf(side, episode, frame) {
  let best = null;
  for (const one of DATA.images) {
    if (one.side !== side || one.episode !== episode) continue;
    if (best === null || Math.abs(one.frame - frame) < Math.abs(best.frame - frame)) best = one;
  }
  return best;
}

// ---- lasso: a rule, a query, a plan item --------------------------------------------------------------------------

function inPolygon(polygon, x, y) {
  let inside = false;
  for (let i = 0, j = polygon.length - 1; i < polygon.length; j = i++) {
    const [xi, yi] = polygon[i], [xj, yj] = polygon[j];
    if (yi > y !== yj > y && x < ((xj - xi) * (y - yi)) / (yj - yi) + xi) inside = !inside;
  }
  return inside;
}

function choose(polygon) {
  const level = state.level, chosen = new Uint8Array(level.count);
  const xs = polygon.map((p) => p[0]), ys = polygon.map((p) => p[1]);
  const box = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  let count = 0;
  for (let i = 0; i < level.count; i++) {
    if (!visible(level, i)) continue;
    const [x, y] = place(i);
    if (x < box[0] || x > box[1] || y < box[2] || y > box[3] || !inPolygon(polygon, x, y)) continue;
    chosen[i] = 1;
    count++;
  }
  state.chosen = count ? chosen : null;
  redraw();
  return count;
}

// Ranges of named variables that hold for the chosen points and for few others: the axes first, then whichever leaves out most.
function describe(chosen) {
  const level = state.level, real = [], rest = [];
  for (let i = 0; i < level.count; i++) if (chosen[i]) real.push(i);
  for (let i = 0; i < level.count; i++) if (!chosen[i] && level.side[i] === 0) rest.push(i);
  const usable = [...level.columns.values()].filter((c) => c.sql);
  const forced = usable.filter((c) => c.name === state.x || c.name === state.y);
  const ranges = [];
  let others = rest;
  const rangeOf = (column) => {
    const values = real.map((i) => valueOf(column, i)).filter((v) => !Number.isNaN(v)).sort((a, b) => a - b);
    if (values.length < real.length) return null;
    const margin = column.step; // values are stored on a grid this fine
    return { column, low: values[0] - margin, high: values[values.length - 1] + margin };
  };
  const keeps = (range) => others.filter((i) => {
    const v = valueOf(range.column, i);
    return v >= range.low && v <= range.high;
  });
  for (const column of forced) {
    const range = rangeOf(column);
    if (range) { ranges.push(range); others = keeps(range); }
  }
  while (ranges.length < 3 && others.length > 0.05 * real.length) {
    let best = null, left = null;
    for (const column of usable) {
      if (ranges.some((r) => r.column === column)) continue;
      const range = rangeOf(column);
      if (!range) continue;
      const kept = keeps(range);
      if (left === null || kept.length < left.length) { best = range; left = kept; }
    }
    if (best === null || left.length > 0.8 * others.length) break;
    ranges.push(best);
    others = left;
  }
  return { ranges, others: others.length, count: real.length };
}

function queryOf(ranges, episodes) {
  const rows = [], whole = [];
  for (const { column, low, high } of ranges) {
    const within = `${column.sql} between ${short6(low)} and ${short6(high)}`;
    if (column.place === "frames") rows.push(within);
    else if (column.place === "start") whole.push(`episode_index in (select episode_index from frames where frame_index = 0 and ${within})`);
    else whole.push(`episode_index in (select episode_index from episodes where ${within})`);
  }
  if (!rows.length && !whole.length) whole.push(`episode_index in (${episodes.join(", ")})`);
  return rows.length
    ? `select episode_index, frame_index from frames where ${[...rows, ...whole].join(" and ")}`
    : `select episode_index, task, success, failure from episodes where ${whole.join(" and ")}`;
}

const short6 = (value) => String(Number(value.toPrecision(6)));

function showLasso(count) {
  const panel = byId("lassoed");
  panel.replaceChildren();
  if (!count) { panel.append(text("p", "Nothing inside.", "soft")); return; }
  const level = state.level, found = [new Set(), new Set()];
  let outside = 0;
  for (let i = 0; i < level.count; i++) if (state.chosen[i]) {
    found[level.side[i]].add(level.episode[i]);
    if (level.side[i] === 0 && level.region[i] !== NONE) outside++;
  }
  const { ranges, others } = describe(state.chosen);
  const name = ranges.map((r) => `${r.column.name} between ${short(r.low)} and ${short(r.high)} ${r.column.unit === "1" ? "" : r.column.unit}`.trim()).join(", ") || "chosen by hand";
  const numbers = [...found[0]].map((e) => DATA.sides[0].numbers[e]).sort((a, b) => a - b);
  const failed = [...found[0]].filter((e) => DATA.sides[0].ended[e].startsWith("failed")).length;
  const item = { kind: "region", name, level: level.name, query: queryOf(ranges, numbers), real: DATA.sides[0].name,
    conditions: ranges.map((r) => ({ variable: r.column.name, unit: r.column.unit, low: r.low, high: r.high })),
    episodes: numbers, failed, points: count, others, outside };
  window.twinloopItem = item;
  panel.append(text("p", `${count} points: ${found[0].size} real episodes (${failed} failed), ${found[1].size} simulated.`));
  panel.append(text("p", name));
  if (others) panel.append(text("p", `The same ranges hold for ${others} real points outside the lasso.`, "soft"));
  panel.append(text("pre", `twinloop data query ${quoted(DATA.sides[0].path)} ${quoted(item.query)}`));
  const copy = text("button", "Copy query");
  copy.onclick = () => navigator.clipboard?.writeText(panel.querySelector("pre").textContent);
  const save = document.createElement("a");
  save.textContent = "Download plan item";
  save.className = "button";
  save.id = "save-item";
  save.download = "plan-item.json";
  save.href = URL.createObjectURL(new Blob([JSON.stringify(item, null, 1)], { type: "application/json" }));
  panel.append(copy, save);
}

// ---- controls -----------------------------------------------------------------------------------------------------

function fill(select, names, chosen) {
  select.replaceChildren(...names.map((name) => { const o = text("option", name); o.value = name; return o; }));
  select.value = chosen;
}

function useLevel(name) {
  state.level = levels.get(name);
  const names = [...state.level.columns.keys()];
  if (!names.includes(state.x)) state.x = names[0];
  if (!names.includes(state.y)) state.y = names[1] ?? names[0];
  fill(byId("x"), names, state.x);
  fill(byId("y"), names, state.y);
  byId("level").value = name;
  state.chosen = state.picked = state.lasso = null;
  fitView();
}

function useRegion(number) {
  state.region = state.region === number ? null : number;
  if (state.region !== null) {
    const region = DATA.regions[number];
    if (levels.has(region.level)) useLevel(region.level);
    if (region.axes.length) {
      state.x = region.axes[0];
      state.y = region.axes[1] ?? state.y;
      if (state.x === state.y) state.y = [...state.level.columns.keys()].find((n) => n !== state.x);
      byId("x").value = state.x;
      byId("y").value = state.y;
    }
    fitView();
  }
  document.querySelectorAll(".region").forEach((row, k) => row.classList.toggle("on", k === state.region));
  redraw();
}

function at(event) {
  const box = overlay.getBoundingClientRect(), ratio = window.devicePixelRatio || 1;
  return [(event.clientX - box.left) * ratio, (event.clientY - box.top) * ratio];
}

let drag = null;
overlay.addEventListener("pointerdown", (event) => {
  overlay.setPointerCapture(event.pointerId);
  drag = { from: at(event), view: { ...state.view }, moved: false };
  if (state.tool === "lasso" || event.shiftKey) { drag.lasso = true; state.lasso = [drag.from]; state.chosen = null; }
});
overlay.addEventListener("pointermove", (event) => {
  if (!drag) return;
  const here = at(event), dx = here[0] - drag.from[0], dy = here[1] - drag.from[1];
  if (Math.hypot(dx, dy) > 4) drag.moved = true;
  if (drag.lasso) { state.lasso.push(here); drawOverlay(); return; }
  const kx = ((drag.view.x1 - drag.view.x0) * dx) / canvas.width, ky = ((drag.view.y1 - drag.view.y0) * dy) / canvas.height;
  state.view = { x0: drag.view.x0 - kx, x1: drag.view.x1 - kx, y0: drag.view.y0 + ky, y1: drag.view.y1 + ky };
  redraw();
});
overlay.addEventListener("pointerup", (event) => {
  if (!drag) return;
  if (drag.lasso && state.lasso.length > 2) showLasso(choose(state.lasso));
  else if (!drag.moved) {
    const found = nearest(...at(event));
    if (found !== null) showPoint(found);
  }
  drag = null;
});
function zoom(x, y, factor) {
  const view = state.view;
  const fx = x / canvas.width, fy = 1 - y / canvas.height;
  const cx = view.x0 + fx * (view.x1 - view.x0), cy = view.y0 + fy * (view.y1 - view.y0);
  state.view = { x0: cx + (view.x0 - cx) * factor, x1: cx + (view.x1 - cx) * factor, y0: cy + (view.y0 - cy) * factor, y1: cy + (view.y1 - cy) * factor };
  redraw();
}
overlay.addEventListener("wheel", (event) => {
  event.preventDefault();
  zoom(...at(event), Math.exp(0.0015 * event.deltaY));
}, { passive: false });
for (const [id, factor] of [["closer", 1 / 1.5], ["farther", 1.5]])
  byId(id).addEventListener("click", () => zoom(canvas.width / 2, canvas.height / 2, factor));
dark.addEventListener("change", () => { useTheme(); redraw(); });

for (const axis of ["x", "y"]) byId(axis).addEventListener("change", (event) => {
  state[axis] = event.target.value;
  state.lasso = null;
  fitView();
  redraw();
});
byId("level").addEventListener("change", (event) => { useLevel(event.target.value); redraw(); });
for (const side of ["real", "sim"]) byId(`show-${side}`).addEventListener("change", (event) => { state.show[side] = event.target.checked; redraw(); });
for (const tool of ["move", "lasso"]) byId(tool).addEventListener("click", () => {
  state.tool = tool;
  byId("move").classList.toggle("on", tool === "move");
  byId("lasso").classList.toggle("on", tool === "lasso");
  overlay.style.cursor = tool === "lasso" ? "crosshair" : "grab";
});
byId("fit").addEventListener("click", () => { fitView(); redraw(); });
document.querySelectorAll(".region").forEach((row, k) => row.addEventListener("click", () => useRegion(k)));
fill(byId("level"), [...levels.keys()], DATA.levels[0].name);
useLevel(DATA.levels[0].name);
window.addEventListener("resize", resize);
window.twinloopMap = { state, levels, place, draw, data: DATA };
resize();
