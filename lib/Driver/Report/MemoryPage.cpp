// memory.html: one file, no requests. The account is embedded as data; the script below draws alive bytes over time,
// arena by arena, and lists what is alive where the pointer is.
#include "Report/MemoryReport.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;
using namespace hyc;

/// Above this many lives of records the page shows the largest stage alone.
static constexpr size_t kMostLives = 500000;

static constexpr StringLiteral kHead = R"(<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Memory</title>
<style>
body { font: 14px/1.4 system-ui, sans-serif; margin: 1.5em; color: #222; background: #fff; max-width: 1200px; }
h1 { font-size: 1.3em; margin: 0 0 .5em; }
h2 { font-size: 1em; margin: 1.2em 0 .2em; }
canvas { width: 100%; height: 120px; display: block; border: 1px solid #ccc; cursor: crosshair; }
table { border-collapse: collapse; margin: .3em 0; }
td, th { padding: 1px 10px 1px 0; text-align: left; font-variant-numeric: tabular-nums; }
td.n, th.n { text-align: right; }
.detail { min-height: 1.4em; color: #444; }
.pinned { background: #fff8dc; }
@media (prefers-color-scheme: dark) { body { background: #1b1b1b; color: #ddd; } .detail { color: #bbb; }
  canvas { border-color: #555; } .pinned { background: #3a3520; } }
</style>
</head>
<body>
<h1 id="title"></h1>
<p>Bytes alive at every moment of one step, on each rank of a stage. Point at a moment to see what is alive; click to hold
it, click again to let go. The line above is what the arena has, the mark is the peak.</p>
<label>Stage <select id="stage"></select></label> <span id="ranks"></span>
<div id="arenas"></div>
<script>
const account = )";

static constexpr StringLiteral kTail = R"(;
"use strict";
const bytes = n => {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let u = 0;
  while (n >= 1024 && u + 1 < units.length) { n /= 1024; ++u; }
  return (u === 0 || n >= 100 ? n.toFixed(0) : n >= 10 ? n.toFixed(1) : n.toFixed(2)) + " " + units[u];
};
const make = (tag, text, className) => {
  const e = document.createElement(tag);
  if (text !== undefined) e.textContent = text;
  if (className) e.className = className;
  return e;
};
// Instruction at time t: the last that begins at or before it.
const instructionAt = (stage, t) => {
  let low = 0, high = stage.instructions.length;
  while (low < high) {
    const mid = (low + high) >> 1;
    if (stage.instructions[mid].begin <= t) low = mid + 1; else high = mid;
  }
  return stage.instructions[low - 1];
};
const copiesAt = (tensor, instruction, t) => {
  if (tensor.lives) return tensor.lives.filter(l => l[0] <= t && t <= l[1]).length;
  if (tensor.fn === undefined) return 1;
  const p = instruction && instruction.fn === tensor.fn ? t - instruction.begin : -1;
  return tensor.first <= p && p <= tensor.last ? 1 : 0;
};
// Alive bytes at every time point.
const series = (stage, arena) => {
  const end = stage.end, changes = new Float64Array(end + 2);
  const profiles = stage.functions.map(f => new Float64Array(f.ops.length + 2));
  let fixed = 0;
  for (const t of arena.tensors) {
    if (t.lives) for (const l of t.lives) { changes[l[0]] += t.bytes; changes[l[1] + 1] -= t.bytes; }
    else if (t.fn === undefined) fixed += t.bytes;
    else { profiles[t.fn][t.first] += t.bytes; profiles[t.fn][t.last + 1] -= t.bytes; }
  }
  for (const p of profiles) for (let i = 1; i < p.length; ++i) p[i] += p[i - 1];
  const result = new Float64Array(Math.max(1, end));
  let records = fixed;
  for (let t = 0; t < end; ++t) { records += changes[t]; result[t] = records; }
  for (const i of stage.instructions)
    if (i.fn >= 0) for (let t = i.begin; t < i.end && t - i.begin < profiles[i.fn].length; ++t)
      result[t] += profiles[i.fn][t - i.begin];
  return result;
};
const drawArena = (stage, arena) => {
  const box = make("div");
  box.append(make("h2", arena.name + ": " + bytes(arena.bytes) + ", " + bytes(arena.alive) + " alive at the peak"));
  const canvas = make("canvas"), detail = make("div", undefined, "detail");
  box.append(canvas, detail);
  document.getElementById("arenas").append(box);
  const values = series(stage, arena), width = canvas.width = 2 * canvas.clientWidth, height = canvas.height = 240;
  const top = Math.max(arena.bytes, 1) * 1.05, y = v => height - v / top * height, c = canvas.getContext("2d");
  let pinned = false;
  const draw = at => {
    c.clearRect(0, 0, width, height);
    c.fillStyle = "#4a7fb5";
    for (let x = 0; x < width; ++x) {
      // The most of all points that fall on this column.
      const from = Math.floor(x * values.length / width), to = Math.max(from + 1, Math.floor((x + 1) * values.length / width));
      let most = 0;
      for (let t = from; t < to; ++t) most = Math.max(most, values[t]);
      c.fillRect(x, y(most), 1, height - y(most));
    }
    c.fillStyle = "#c33";
    c.fillRect(0, y(arena.bytes), width, 2);
    c.fillRect((arena.peak + .5) / values.length * width - 2, 0, 4, 14);
    if (at !== undefined) { c.fillStyle = "#e90"; c.fillRect((at + .5) / values.length * width - 1, 0, 2, height); }
  };
  const show = t => {
    draw(t);
    const instruction = instructionAt(stage, t), position = instruction ? t - instruction.begin : 0;
    const op = instruction && instruction.fn >= 0 ? stage.functions[instruction.fn].ops[position] || "" : "";
    const alive = arena.tensors.map(x => [x, copiesAt(x, instruction, t)]).filter(x => x[1] > 0)
      .sort((a, b) => b[0].bytes * b[1] - a[0].bytes * a[1]);
    detail.replaceChildren(make("div", bytes(values[t]) + " alive in " + (instruction ? instruction.text : "-") +
      (op ? ", " + op : "")));
    const table = make("table"), rows = pinned ? alive : alive.slice(0, 12);
    for (const [tensor, copies] of rows) {
      const row = make("tr");
      row.append(make("td", bytes(tensor.bytes * copies), "n"), make("td", copies > 1 ? copies + " copies" : ""),
        make("td", tensor.name), make("td", tensor.type), make("td", tensor.op || tensor.kind));
      table.append(row);
    }
    detail.append(table);
    if (rows.length < alive.length) detail.append(make("div", "and " + (alive.length - rows.length) + " more; click for all"));
  };
  const timeOf = e => {
    const r = canvas.getBoundingClientRect();
    return Math.min(values.length - 1, Math.max(0, Math.floor((e.clientX - r.left) / r.width * values.length)));
  };
  canvas.addEventListener("mousemove", e => { if (!pinned) show(timeOf(e)); });
  canvas.addEventListener("click", e => {
    pinned = !pinned;
    detail.classList.toggle("pinned", pinned);
    show(timeOf(e));
  });
  draw();
};
const showStage = index => {
  const stage = account.stages[index];
  document.getElementById("arenas").replaceChildren();
  document.getElementById("ranks").textContent = stage.ranks + ", " + bytes(stage.total) + " each";
  for (const arena of stage.arenas) drawArena(stage, arena);
};
document.getElementById("title").textContent = "Memory of " + account.name;
const select = document.getElementById("stage");
account.stages.forEach((stage, index) => select.append(new Option(stage.stage, index)));
select.addEventListener("change", () => showStage(select.value));
showStage(0);
</script>
</body>
</html>
)";

/// JSON inside a script: no "</script>", whatever a tensor is called.
static std::string embeddable(std::string text) {
  std::string result;
  for (char c : text)
    result += c == '<' ? std::string("\\u003c") : std::string(1, c);
  return result;
}

static void writeTensor(json::OStream &json, const AccountedTensor &tensor) {
  json.object([&] {
    json.attribute("name", json::fixUTF8(tensor.name));
    json.attribute("kind", getName(tensor.kind));
    json.attribute("type", tensor.type);
    json.attribute("bytes", tensor.item.bytes);
    if (!tensor.source.empty())
      json.attribute("op", json::fixUTF8(tensor.source));
    if (tensor.kind == TensorKind::Temporary) {
      json.attribute("fn", tensor.item.function);
      json.attribute("first", tensor.item.first);
      json.attribute("last", tensor.item.last);
    } else if (tensor.kind == TensorKind::Record) {
      json.attributeArray("lives", [&] {
        for (const RecordLife &life : tensor.item.lives)
          json.array([&] {
            json.value(life.begin);
            json.value(life.end);
          });
      });
    }
  });
}

static void writeStage(json::OStream &json, const JobAccount &job, const StageAccount &stage) {
  json.object([&] {
    json.attribute("stage", stage.stage);
    json.attribute("ranks", describeRanks(job, stage));
    json.attribute("total", stage.totalBytes());
    json.attribute("end", stage.instructions.empty() ? int64_t(0) : stage.instructions.back().end);
    json.attributeArray("functions", [&] {
      for (const AccountedFunction &function : stage.functions)
        json.object([&] {
          json.attribute("name", function.name);
          json.attributeArray("ops", [&] {
            for (const std::string &op : function.ops)
              json.value(json::fixUTF8(op));
          });
        });
    });
    json.attributeArray("instructions", [&] {
      for (const AccountedInstruction &instruction : stage.instructions)
        json.object([&] {
          json.attribute("text", instruction.text);
          json.attribute("fn", instruction.function);
          json.attribute("begin", instruction.begin);
          json.attribute("end", instruction.end);
        });
    });
    json.attributeArray("arenas", [&] {
      for (const ArenaAccount &arena : stage.arenas)
        json.object([&] {
          json.attribute("name", arena.name);
          json.attribute("bytes", arena.bytes);
          json.attribute("alive", arena.peak.aliveBytes);
          json.attribute("peak", arena.peak.time);
          json.attributeArray("tensors", [&] {
            for (const AccountedTensor &tensor : arena.tensors)
              writeTensor(json, tensor);
          });
        });
    });
  });
}

std::string hyc::writeMemoryPage(const JobAccount &job, StringRef name) {
  size_t lives = 0;
  const StageAccount *largest = nullptr;
  for (const StageAccount &stage : job.stages) {
    for (const ArenaAccount &arena : stage.arenas)
      for (const AccountedTensor &tensor : arena.tensors)
        lives += tensor.item.lives.size();
    if (!largest || stage.totalBytes() > largest->totalBytes())
      largest = &stage;
  }
  std::string data;
  raw_string_ostream os(data);
  json::OStream json(os);
  json.object([&] {
    json.attribute("name", json::fixUTF8(name));
    json.attributeArray("stages", [&] {
      for (const StageAccount &stage : job.stages)
        if (lives <= kMostLives || &stage == largest)
          writeStage(json, job, stage);
    });
  });
  return kHead.str() + embeddable(std::move(data)) + kTail.str();
}
