"use strict";
const byId = id => document.getElementById(id);
const make = (tag, text, className) => {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  if (className) element.className = className;
  return element;
};
const digits = n => n === 0 || n >= 100 ? n.toFixed(0) : n >= 10 ? n.toFixed(1) : n.toPrecision(3);
const scaled = (n, base, units) => {
  let u = 0;
  while (n >= base && u + 1 < units.length) { n /= base; ++u; }
  return (u === 0 ? n.toFixed(0) : digits(n)) + " " + units[u];
};
const bytes = n => scaled(n, 1024, ["B", "KiB", "MiB", "GiB", "TiB", "PiB"]);
const count = n => scaled(n, 1000, ["", "K", "M", "G", "T", "P", "E"]).trim();
const time = ns => ns === 0 ? "0" : ns < 1e3 ? digits(ns) + " ns" : ns < 1e6 ? digits(ns / 1e3) + " µs" :
  ns < 1e9 ? digits(ns / 1e6) + " ms" : digits(ns / 1e9) + " s";
const percent = part => (100 * part).toFixed(1) + " %";
const colour = name => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();

// A table of rows; a column is [title, cell of a row, class]. A cell is a text or an element.
const fillTable = (id, columns, rows) => {
  const table = typeof id === "string" ? byId(id) : id, head = make("thead"), body = make("tbody"), titles = make("tr");
  for (const [title, , className] of columns) titles.append(make("th", title, className));
  head.append(titles);
  for (const row of rows) {
    const line = make("tr");
    for (const [, cell, className] of columns) {
      const value = cell(row), td = make("td", undefined, className);
      td.append(value === undefined ? "" : value);
      line.append(td);
    }
    body.append(line);
  }
  table.replaceChildren(head, body);
};
const bar = (part, className) => {
  const element = make("span", undefined, "bar " + (className || ""));
  element.style.width = Math.max(0, 100 * part).toFixed(1) + "px";
  return element;
};

//===---- What was decided ----===//
const layout = plan.axes.slice().reverse().map(a => a.name + " " + a.size).join(" × ");
const hasTime = plan.seconds !== undefined;
const worst = part => hasTime ? Math.max(...plan.stageTimes.map(s => s[part] / Math.max(1, s[0] + s[1] + s[2]))) : 0;
byId("title").textContent = document.title = "Plan of " + plan.name;
byId("subtitle").textContent = plan.ranks + (plan.ranks === 1 ? " rank: " : " ranks: ") + layout +
  (plan.machine ? " on " + plan.machine : "");
const card = (value, text) => {
  const box = make("div", undefined, "card");
  box.append(make("b", value), make("span", text));
  byId("cards").append(box);
};
if (hasTime) {
  card(time(plan.seconds), "a step, estimated");
  card(percent(worst(1)), "of it exposed communication, at most");
  card(percent(worst(2)), "waiting for other stages, at most");
}
card(bytes(plan.device), plan.limit ? "of " + bytes(plan.limit) + " of a device" : "of a device's memory");
for (const [name, value] of plan.facts) byId("facts").append(make("dt", name), make("dd", value));

//===---- Mesh ----===//
// Of a rank, on average over the stages.
const sentOver = axis => plan.exchanges.filter(e => e.kind === "send" ? axis === "pp" :
  e.over.replace(/[^\w]+/g, " ").split(" ").includes(axis)).reduce((sum, e) => sum + e.sent, 0) / plan.stages;
const tierName = axis => axis.size === 1 ? "" : axis.tier < 0 ? plan.tiers.length ? "beyond the last tier" : "one link" :
  plan.tiers[axis.tier].name + " (" + plan.tiers[axis.tier].ranks + " ranks, " + bytes(plan.tiers[axis.tier].rate) + "/s)";
fillTable("axes", [
  ["axis", a => a.name], ["size", a => String(a.size), "number"],
  ["ranks between neighbours", a => a.size === 1 ? "" : String(a.stride), "number"], ["lies within", tierName],
  ["a rank sends over it in a step", a => a.size === 1 ? "" : bytes(sentOver(a.name)), "number"],
], plan.axes);
{
  const each = plan.ranks / plan.stages, box = byId("stages");
  const shown = new Set([...Array(plan.stages).keys()].filter(s => plan.stages <= 12 || s < 6 || s >= plan.stages - 3));
  for (let stage = 0, skipped = false; stage < plan.stages; ++stage) {
    if (!shown.has(stage)) {
      if (!skipped) box.append(make("div", plan.stages - shown.size + " more stages", "stage more"));
      skipped = true;
      continue;
    }
    const one = make("div", undefined, "stage"), first = stage * each;
    one.append(make("b", "stage " + stage));
    one.append(make("div", each === 1 ? "rank " + first : "ranks " + first + " to " + (first + each - 1)));
    one.append(make("div", bytes(plan.stageBytes[stage])));
    if (hasTime && plan.stageTimes[stage]) one.append(make("div", time(plan.stageTimes[stage][0]) + " of kernels"));
    box.append(one);
  }
}

//===---- Canvases ----===//
const prepare = (canvas, height) => {
  const ratio = window.devicePixelRatio || 1, width = Math.max(200, canvas.clientWidth);
  canvas.style.height = height + "px";
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  context.font = "12px system-ui, sans-serif";
  return [context, width];
};
const hatch = (context, base) => {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 6;
  const c = tile.getContext("2d");
  c.fillStyle = base;
  c.fillRect(0, 0, 6, 6);
  c.strokeStyle = colour("text");
  c.globalAlpha = .45;
  c.beginPath();
  for (const d of [-6, 0, 6]) { c.moveTo(d, 6); c.lineTo(d + 6, 0); }
  c.stroke();
  return context.createPattern(tile, "repeat");
};
const legend = (id, entries) => byId(id).replaceChildren(...entries.map(([text, fill, isHatched]) => {
  const entry = make("span"), key = make("span", undefined, "key" + (isHatched ? " hatched" : ""));
  key.style.backgroundColor = fill;
  entry.append(key, text);
  return entry;
}));
// Where a canvas was pointed at, from 0 to 1 between its margins.
const placeOf = (event, canvas, left) => {
  const box = canvas.getBoundingClientRect();
  return Math.min(1, Math.max(0, (event.clientX - box.left - left) / Math.max(1, box.width - left)));
};

//===---- One step ----===//
const rowHeight = 26, stepMargin = 64;
const view = {from: 0, to: 1, drag: null};
const kindColour = kind => kind === "forward" ? "forward" : kind === "backward" ? "backward" : "update";
const axisTicks = (span, width) => {
  const step = 10 ** Math.floor(Math.log10(span * 90 / width || 1));
  return [1, 2, 5, 10].map(f => f * step).find(s => s / span * width >= 70) || 10 * step;
};
const drawTimeline = () => {
  const rows = plan.timeline, canvas = byId("timeline"), height = rows.length * rowHeight + 24;
  const [c, width] = prepare(canvas, height), end = plan.seconds, follow = byId("follow").value;
  const from = view.from * end, span = Math.max(1, (view.to - view.from) * end);
  const x = t => stepMargin + (t - from) / span * (width - stepMargin);
  const patterns = {exposed: hatch(c, colour("exposed")), idle: hatch(c, colour("idle"))};
  c.save();
  rows.forEach((row, index) => {
    const top = index * rowHeight + 3, tall = rowHeight - 6;
    c.fillStyle = colour("text");
    c.globalAlpha = 1;
    c.fillText("stage " + row.stage, 4, top + tall - 5);
    for (const [kind, micro, begin, computing, exposed, idle] of row.instructions) {
      const stop = begin + computing + exposed + idle;
      if (stop < from || begin > from + span) continue;
      c.globalAlpha = follow !== "" && String(micro) !== follow ? .22 : 1;
      let at = begin;
      for (const [length, fill] of [[idle, patterns.idle], [computing, colour(kindColour(kind))], [exposed, patterns.exposed]]) {
        if (length > 0) {
          const left = Math.max(stepMargin, x(at)), right = Math.min(width, x(at + length));
          c.fillStyle = fill;
          if (right > left) c.fillRect(left, top, Math.max(.5, right - left - (right - left > 4 ? 1 : 0)), tall);
          if (fill === colour(kindColour(kind)) && micro >= 0 && right - left > 22) {
            c.fillStyle = colour("ground");
            c.fillText(micro, left + 4, top + tall - 5);
          }
        }
        at += length;
      }
    }
  });
  c.globalAlpha = 1;
  c.fillStyle = colour("soft");
  const tick = axisTicks(span, width - stepMargin);
  for (let t = Math.ceil(from / tick) * tick; t <= from + span; t += tick) {
    c.fillRect(x(t), rows.length * rowHeight, 1, 6);
    if (x(t) < width - 50) c.fillText(time(Math.round(t)), x(t) + 3, height - 7);
  }
  if (view.drag) {
    c.globalAlpha = .25;
    c.fillStyle = colour("accent");
    const [a, b] = view.drag.map(p => stepMargin + p * (width - stepMargin)).sort((p, q) => p - q);
    c.fillRect(a, 0, b - a, height);
  }
  c.restore();
};
const tellInstruction = event => {
  const canvas = byId("timeline"), box = canvas.getBoundingClientRect(), detail = byId("timelineDetail");
  const row = plan.timeline[Math.floor((event.clientY - box.top) / rowHeight)];
  const t = (view.from + placeOf(event, canvas, stepMargin) * (view.to - view.from)) * plan.seconds;
  const found = row && row.instructions.find(i => i[2] <= t && t < i[2] + i[3] + i[4] + i[5]);
  detail.textContent = !found ? "" : "stage " + row.stage + " (" + row.ranks + "): " + found[0] +
    (found[1] >= 0 ? " of micro-batch " + found[1] : "") + " at " + time(found[2]) + ": computes " + time(found[3]) +
    ", exposed " + time(found[4]) + ", waits for other stages " + time(found[5]);
};
if (hasTime && plan.timeline) {
  const micros = new Set();
  for (const row of plan.timeline) for (const i of row.instructions) if (i[1] >= 0) micros.add(i[1]);
  for (const m of [...micros].sort((a, b) => a - b)) byId("follow").append(new Option(m, m));
  const shown = plan.timeline.length, cut = plan.timeline.some(r => r.all > r.instructions.length && r.instructions.length > 0 &&
    r.instructions[r.instructions.length - 1][2] < plan.seconds * .5);
  byId("stepText").textContent = "What every stage does in one step of " + time(plan.seconds) + ", estimated from the rates " +
    "of the machine; without a communication thread it would take " + time(plan.inTurn) + ". The ranks of a stage are alike. " +
    "Within a box, waiting is drawn together, wherever in the box it falls." +
    (shown < plan.stages ? " " + shown + " of " + plan.stages + " stages are shown." : "") +
    (cut ? " Only the beginning of the schedule is shown." : "");
  const canvas = byId("timeline");
  canvas.setAttribute("aria-label", "Timeline of " + shown + " stages; the table of stages above has their sums");
  byId("follow").addEventListener("change", drawTimeline);
  byId("whole").addEventListener("click", () => { view.from = 0; view.to = 1; byId("whole").disabled = true; drawTimeline(); });
  canvas.addEventListener("pointerdown", e => { const p = placeOf(e, canvas, stepMargin); view.drag = [p, p]; });
  canvas.addEventListener("pointermove", e => {
    if (view.drag) { view.drag[1] = placeOf(e, canvas, stepMargin); drawTimeline(); }
    tellInstruction(e);
  });
  window.addEventListener("pointerup", () => {
    if (!view.drag) return;
    const [a, b] = view.drag.slice().sort((p, q) => p - q), span = view.to - view.from;
    view.drag = null;
    if (b - a > .01) {
      [view.from, view.to] = [view.from + a * span, view.from + b * span];
      byId("whole").disabled = false;
    }
    drawTimeline();
  });
} else {
  byId("stepText").textContent = "There is no estimate of this plan's time.";
  byId("timeline").hidden = true;
}

//===---- Memory ----===//
const arenaColours = {parameters: "#0072b2", gradients: "#56b4e9", optimizer: "#009e73", activations: "#e69f00",
  communication: "#d55e00", feeds: "#cc79a7", workspace: "#b8a800", host: "#7a8794", nvme: "#a9b4be"};
const arenaColour = arena => arenaColours[arena.name] || "#999999";
const curves = {stage: null, column: null, pinned: false};
const curveHeight = 300, curveFoot = 40, curveMargin = 70;
const instructionAt = (stage, point) => {
  let low = 0, high = stage.instructions.length;
  while (low < high) {
    const mid = (low + high) >> 1;
    if (stage.instructions[mid][4] <= point) low = mid + 1; else high = mid;
  }
  const found = stage.instructions[low - 1];
  return found && point < found[4] + found[5] ? found : undefined; // of long schedules the first are told
};
const columnSum = (stage, column, chosen) => stage.arenas.reduce((sum, a, i) => sum + (chosen(a) ? stage.alive[i][column] : 0), 0);
const drawCurves = () => {
  const stage = curves.stage, canvas = byId("curves"), [c, width] = prepare(canvas, curveHeight + curveFoot);
  const device = stage.arenas.filter(a => a.onDevice), far = stage.arenas.filter(a => !a.onDevice);
  const placed = stage.arenas.reduce((sum, a) => sum + a.bytes, 0);
  const near = plan.limit && plan.limit < 4 * stage.total ? plan.limit : 0;
  const top = Math.max(placed + stage.fixed, near, 1) * 1.04, columns = stage.columns.length;
  const y = v => curveHeight - v / top * curveHeight, x = i => curveMargin + i / columns * (width - curveMargin);
  const wide = (width - curveMargin) / columns + .5;
  for (let i = 0; i < columns; ++i) {
    let under = 0;
    const box = (value, fill) => {
      c.fillStyle = fill;
      c.fillRect(x(i), y(under + value), wide, y(under) - y(under + value));
      under += value;
    };
    box(stage.fixed, "#8a8f98");
    for (const arena of device.concat(far)) box(stage.alive[stage.arenas.indexOf(arena)][i], arenaColour(arena));
  }
  // The two lie close together where a plan fits just so: one label at each end. What is in the host's memory is drawn
  // above both, and the limit does not hold for it.
  const line = (value, fill, text, align) => {
    c.fillStyle = fill;
    c.fillRect(curveMargin, y(value), width - curveMargin, 1.5);
    c.textAlign = align;
    c.fillText(text, align === "left" ? curveMargin + 6 : width - 6, Math.max(12, y(value) - 4));
    c.textAlign = "left";
  };
  if (near) line(near, colour("limit"), "limit " + bytes(near), "left");
  const allocated = device.reduce((sum, a) => sum + a.bytes, stage.fixed);
  line(allocated, colour("text"), "allocated " + (far.length ? "on the device " : "") + bytes(allocated), "right");
  c.fillStyle = colour("soft");
  for (const part of [.25, .5, .75]) {
    c.fillText(bytes(top * part), 2, y(top * part) + 4);
    c.fillRect(curveMargin, y(top * part), width - curveMargin, .5);
  }
  // Below: whose work it is.
  for (const [text, entry, kind, micro, begin, length] of stage.instructions) {
    const left = curveMargin + begin / stage.points * (width - curveMargin);
    const size = length / stage.points * (width - curveMargin);
    c.fillStyle = kind === "exchange" ? colour("exposed") : colour(kindColour(kind));
    c.fillRect(left, curveHeight + 3, Math.max(.5, size - (size > 4 ? 1 : 0)), 14);
    const label = (entry ? entry + " " : "") + kind + (micro >= 0 ? " " + micro : "");
    c.fillStyle = colour("text");
    if (size > c.measureText(label).width + 6) c.fillText(label, left + 3, curveHeight + 32);
  }
  if (curves.column !== null) {
    c.fillStyle = colour("text");
    c.fillRect(x(curves.column), 0, 1.5, curveHeight + 20);
  }
};
const aliveColumns = [
  ["bytes", r => bytes(r[0]), "number"], ["tensors", r => String(r[1]), "number"], ["name", r => r[2], "name"],
  ["type", r => r[3]], ["made by", r => r[4], "name"],
];
const tellMoment = () => {
  const stage = curves.stage, box = byId("moment");
  if (curves.column === null) { box.textContent = "Point at a moment to see what is alive; click to hold it."; return; }
  const instruction = instructionAt(stage, stage.columns[curves.column]), table = make("table"), wide = make("div", undefined, "wide");
  const parts = stage.arenas.map((a, i) => a.name + " " + bytes(stage.alive[i][curves.column])).join(", ");
  const rows = instruction && stage.moments[instruction[6]];
  fillTable(table, aliveColumns, rows || []);
  wide.append(table);
  box.replaceChildren(make("p", (instruction ? instruction[0] : "later in the schedule") + ": " +
    bytes(columnSum(stage, curves.column, () => true) + stage.fixed) + " (" + parts + ")"),
    make("p", rows ? "Of that comes and goes, at the instruction's fullest moment:" :
      "What comes and goes here is not told: the page has the first moments of a long schedule.", "note"), wide);
};
const showStage = index => {
  const stage = curves.stage = plan.memory[index];
  curves.column = null;
  curves.pinned = false;
  byId("stageRanks").textContent = stage.ranks + ", " + bytes(stage.total) + " each";
  legend("memoryLegend", [...stage.arenas.map(a => [a.name + " " + bytes(a.bytes), arenaColour(a)]),
    ["code, stacks, heap " + bytes(stage.fixed), "#8a8f98"]]);
  byId("curves").setAttribute("aria-label", "Bytes alive over the schedule of stage " + stage.stage + ", at most " +
    bytes(Math.max(0, ...stage.columns.map((_, i) => columnSum(stage, i, () => true)))));
  byId("lasting").replaceChildren(...stage.arenas.filter(a => a.lasting.length).flatMap(arena => {
    const table = make("table"), wide = make("div", undefined, "wide");
    fillTable(table, aliveColumns, arena.lasting);
    wide.append(table);
    return [make("h3", arena.name), wide];
  }));
  drawCurves();
  tellMoment();
};
plan.memory.forEach((stage, index) => byId("stage").append(new Option(stage.stage, index)));
byId("stage").addEventListener("change", () => showStage(byId("stage").value));
{
  const canvas = byId("curves");
  const at = e => Math.min(curves.stage.columns.length - 1, Math.floor(placeOf(e, canvas, curveMargin) * curves.stage.columns.length));
  canvas.addEventListener("pointermove", e => { if (!curves.pinned) { curves.column = at(e); drawCurves(); tellMoment(); } });
  canvas.addEventListener("click", e => { curves.pinned = !curves.pinned; curves.column = at(e); drawCurves(); tellMoment(); });
}

//===---- Tables ----===//
const shardings = row => row.parameters.map(p => p.name + " " + p.sharding +
  (p.gradient && p.gradient !== "{}" ? ", gradient over " + p.gradient : "") +
  (p.optimizer && p.optimizer !== "{}" ? ", optimizer over " + p.optimizer : "")).join("; ");
const layerTotal = plan.layers.reduce((sum, l) => sum + l.forward + l.backward + l.other, 0);
fillTable("layerTable", [
  ["layer", l => l.name || "of no layer", "name"], ["count", l => String(l.count), "number"],
  ["forward", l => time(l.forward), "number"], ["backward", l => time(l.backward), "number"],
  ["update", l => time(l.other), "number"], ["share", l => percent((l.forward + l.backward + l.other) / Math.max(1, layerTotal)), "number"],
  ["", l => bar((l.forward + l.backward + l.other) / Math.max(1, layerTotal))], ["bound by", l => l.bound],
  ["exchanges", l => l.sent ? time(l.exchanges) + ", " + bytes(l.sent) : "", "number"], ["shardings", shardings, "words"],
], plan.layers);
const kernelTotal = plan.kernels.reduce((sum, k) => sum + k.seconds, 0);
fillTable("kernelTable", [
  ["kernel or exchange", k => k.name, "name"], ["bound by", k => k.bound], ["calls", k => count(k.calls), "number"],
  ["time", k => time(k.seconds), "number"], ["share", k => percent(k.seconds / Math.max(1, kernelTotal)), "number"],
  ["", k => bar(k.seconds / Math.max(1, kernelTotal), k.isExchange ? "hatched" : "")],
  ["operations", k => k.operations ? count(k.operations) : "", "number"], ["bytes", k => bytes(k.bytes), "number"],
], plan.kernels);
fillTable("exchangeTable", [
  ["exchange", e => e.kind], ["over", e => e.over], ["ranks", e => String(e.members), "number"],
  ["times a step", e => count(e.count), "number"], ["bytes", e => bytes(e.bytes), "number"],
  ["sent a step", e => bytes(e.sent), "number"], ["asked for by", e => e.source, "name"], ["because", e => e.because, "words"],
], plan.exchanges);

//===---- Considered instead ----===//
const taken = plan.candidates.find(c => c.isTaken);
const verdict = c => c.isTaken ? "taken" : c.isTooLarge ? "needs " + bytes(c.bytes - plan.limit) + " more than there is" :
  taken && c.seconds >= taken.seconds ? "+" + percent(c.seconds / taken.seconds - 1) + " time" :
  c.isPlanned ? "" : "slower than this once planned, or not planned";
const showCandidate = index => {
  const c = plan.candidates[index], split = make("div", undefined, "split");
  for (const [part, fill, isHatched] of [[c.computation, "forward", ""], [c.exposed, "exposed", " hatched"], [c.idle, "idle", " hatched"]]) {
    const piece = make("span", undefined, isHatched);
    piece.style.width = 100 * part / Math.max(1, c.computation + c.exposed + c.idle) + "%";
    piece.style.backgroundColor = "var(--" + fill + ")";
    split.append(piece);
  }
  byId("candidateShown").replaceChildren(make("code", c.flags), make("div", time(c.seconds) + (c.isPlanned ? "" : ", estimated") +
    ": computes " + time(c.computation) + ", exposed " + time(c.exposed) + ", waits for stages " + time(c.idle) + "; " +
    bytes(c.bytes) + "; " + verdict(c)), split);
};
if (plan.candidates.length) {
  byId("candidateText").textContent = "The layout was found. Of those that were planned, time and memory are their programs'; " +
    "what they wait, and all of the others, is estimated: of every way to divide the ranks and states the best.";
  const slider = make("input"), shown = make("div");
  slider.type = "range";
  slider.min = 0;
  slider.max = plan.candidates.length - 1;
  slider.value = 0;
  slider.setAttribute("aria-label", "Layout, from the one that was taken to those that fit least");
  shown.id = "candidateShown";
  byId("compare").append(slider, shown);
  slider.addEventListener("input", () => showCandidate(slider.value));
  showCandidate(0);
  fillTable("candidateTable", [
    ["layout", c => c.flags, "words"], ["step", c => time(c.seconds), "number"],
    ["exposed", c => percent(c.exposed / Math.max(1, c.computation + c.exposed + c.idle)), "number"],
    ["bubble", c => percent(c.idle / Math.max(1, c.computation + c.exposed + c.idle)), "number"],
    ["device memory", c => bytes(c.bytes), "number"], ["", c => c.isPlanned ? "planned" : "estimated"], ["", verdict],
  ], plan.candidates);
} else {
  byId("candidateText").textContent = "The layout was given. hyc-compile --ranks N without --tp, --pp and --dp looks for one, " +
    "and shows here what it compared.";
}

const drawAll = () => {
  if (hasTime && plan.timeline) drawTimeline();
  drawCurves();
  legend("stepLegend", [["forward", colour("forward")], ["backward", colour("backward")], ["reduction and update", colour("update")],
    ["exposed communication", colour("exposed"), true], ["waiting for other stages", colour("idle"), true]]);
};
showStage(Math.max(0, plan.memory.indexOf(plan.memory.reduce((a, b) => b.total > a.total ? b : a))));
byId("stage").value = plan.memory.indexOf(curves.stage);
drawAll();
window.addEventListener("resize", drawAll);
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
