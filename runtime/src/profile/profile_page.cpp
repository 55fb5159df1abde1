// The page of a profile. Its data is the profile itself; all that is drawn is drawn from it when it is opened.
#include "profile/profile_file.h"

namespace hycrt {
namespace {

constexpr const char* kBegin = R"html(<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<title>profile</title>
<style>
:root { --text: #1d2329; --soft: #59636e; --ground: #fff; --panel: #f5f7f9; --line: #d3dae0; --accent: #0b5cad; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e4e8ec; --soft: #9aa5b1; --ground: #14181c; --panel: #1d2329; --line: #38424c; --accent: #79b8ff; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem; max-width: 76rem; font: 15px/1.5 system-ui, sans-serif; color: var(--text);
  background: var(--ground); }
h1 { margin: 0; font-size: 1.6rem; overflow-wrap: anywhere; }
h2 { margin: 1.6rem 0 .4rem; font-size: 1.15rem; }
.note { color: var(--soft); font-size: .87rem; margin: .3rem 0; }
.controls { display: flex; flex-wrap: wrap; gap: .4rem 1rem; align-items: center; margin: .5rem 0; }
select, button { font: inherit; color: inherit; padding: .1rem .5rem; background: var(--panel);
  border: 1px solid var(--line); border-radius: 4px; }
#flame { position: relative; border: 1px solid var(--line); border-radius: 4px; overflow: hidden; }
#flame button { position: absolute; height: 22px; padding: 0 4px; border: 1px solid var(--ground); border-radius: 0;
  font-size: .78rem; line-height: 20px; text-align: left; white-space: nowrap; overflow: hidden; cursor: pointer;
  color: #10151a; }
#detail { min-height: 3.2rem; font-variant-numeric: tabular-nums; }
.bar { display: flex; height: 1.2rem; border-radius: 3px; overflow: hidden; }
.legend { display: flex; flex-wrap: wrap; gap: .2rem 1.1rem; font-size: .9rem; }
.key { display: inline-block; width: .9em; height: .9em; margin-right: .4em; border-radius: 2px; vertical-align: -.08em; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; }
th, td { padding: .16rem .9rem .16rem 0; text-align: left; vertical-align: top; font-variant-numeric: tabular-nums; }
th { color: var(--soft); font-weight: 500; border-bottom: 1px solid var(--line); white-space: nowrap; }
td.number, th.number { text-align: right; white-space: nowrap; }
:focus-visible { outline: 2px solid var(--accent); outline-offset: -2px; }
</style>
<h1 id="title"></h1>
<p class="note" id="subtitle"></p>
<h2>The step</h2>
<div class="legend" id="legend"></div>
<div class="wide"><table id="steps"></table></div>
<h2>What takes the time</h2>
<p class="note">Phase, layer, op, kernel; as wide as it takes of the step. Choose a part to see it alone.</p>
<div class="controls"><label>Stage <select id="stage"></select></label><button id="whole">Whole step</button></div>
<div id="flame"></div>
<p id="detail" aria-live="polite"></p>
<h2>Kernels</h2><div class="wide"><table id="kernels"></table></div>
<h2>Layers</h2><div class="wide"><table id="layers"></table></div>
<h2>Exchanges</h2><div class="wide"><table id="exchanges"></table></div>
<h2>Ranks</h2><div class="wide"><table id="ranks"></table></div>
<script type="application/json" id="data">)html";

constexpr const char* kEnd = R"html(</script>
<script>
'use strict';
const data = JSON.parse(document.getElementById('data').textContent);
const at = id => document.getElementById(id);
const make = (tag, text, style) => {
  const node = document.createElement(tag);
  if (text !== undefined) node.textContent = text;
  if (style) node.className = style;
  return node;
};
const parts = {compute: '#56b4e9', update: '#009e73', exchange: '#e69f00', late: '#c9ced3', disk: '#cc79a7',
               data: '#f0e442', other: '#999999'};
const ms = seconds => (seconds * 1e3).toFixed(3);
const giga = (count, seconds) => seconds > 0 ? (count / seconds / 1e9).toFixed(2) : '';
const percent = (part, whole) => whole > 0 ? (part / whole * 100).toFixed(1) + ' %' : '';

function table(node, heads, rows) {
  node.replaceChildren();
  const head = node.createTHead().insertRow();
  for (const name of heads) head.append(make('th', name, name === heads[0] ? '' : 'number'));
  const body = node.createTBody();
  for (const row of rows) {
    const line = body.insertRow();
    row.forEach((cell, i) => {
      const field = line.insertCell();
      if (cell instanceof Node) field.append(cell); else field.textContent = cell;
      if (i > 0 && !(cell instanceof Node)) field.className = 'number';
    });
  }
}
function bar(step, longest) {
  const node = make('div', undefined, 'bar');
  node.style.width = 22 * step.total / longest + 'rem';
  for (const [part, colour] of Object.entries(parts)) {
    const piece = make('span');
    piece.style.background = colour;
    piece.style.width = step[part] / step.total * 100 + '%';
    piece.title = part + ' ' + ms(step[part]) + ' ms';
    node.append(piece);
  }
  return node;
}
function showSteps() {
  const longest = Math.max(...data.stages.map(stage => stage.step.total));
  for (const [part, colour] of Object.entries(parts)) {
    const entry = make('span', part), key = make('span', undefined, 'key');
    key.style.background = colour;
    entry.prepend(key);
    at('legend').append(entry);
  }
  table(at('steps'), ['stage', 'ms', ...Object.keys(parts), ''], data.stages.map(stage =>
    [stage.stage, ms(stage.step.total), ...Object.keys(parts).map(part => ms(stage.step[part])), bar(stage.step, longest)]));
  table(at('ranks'), ['rank', 'stage', 'place', 'ms', ...Object.keys(parts), 'waited most for'], data.ranks.map(rank =>
    [rank.rank, rank.stage, Object.entries(rank.coordinates).map(([axis, place]) => axis + ' ' + place).join(', '),
     ms(rank.step.total), ...Object.keys(parts).map(part => ms(rank.step[part])),
     rank.late_for.length ? 'rank ' + rank.late_for[0].rank + ', ' + ms(rank.late_for[0].seconds) + ' ms' : '']));
}

// A tree of {name, seconds, operations, bytes, roof, parts by name}.
const branch = name => ({name, seconds: 0, operations: 0, bytes: 0, roof: 0, times: 0, parts: new Map()});
function add(tree, path, row, colour) {
  let node = tree;
  for (const name of ['', ...path]) {
    if (name !== '' || node !== tree) {
      if (!node.parts.has(name)) node.parts.set(name, branch(name));
      node = node.parts.get(name);
    }
    node.seconds += row.seconds;
    node.operations += row.operations || 0;
    node.bytes += row.bytes || row.sent_bytes || 0;
    node.roof += row.roof_seconds || 0;
    node.times += row.times || 0;
    node.colour = colour;
  }
}
function treeOf(stage) {
  const tree = branch('step');
  for (const op of stage.ops) {
    const colour = op.function.startsWith('forward') ? '#56b4e9' : op.function.startsWith('backward') ? '#3d95d6' : '#2fb58c';
    add(tree, [op.function, op.layer || '(no layer)', op.op || '(no op)', op.kernel], op, colour);
  }
  for (const one of stage.exchanges) {
    const over = one.kind + ' {' + one.axes.join(', ') + '}';
    add(tree, ['exchanges', one.function, over, one.cause], one, '#e69f00');
  }
  const inFunctions = stage.exchanges.reduce((sum, one) => sum + one.seconds, 0);
  const between = stage.step.exchange + stage.step.late - inFunctions;
  if (between > 1e-9) add(tree, ['exchanges', 'with other stages'], {seconds: between}, '#e69f00');
  for (const part of ['data', 'other'])
    if (stage.step[part] > 0) add(tree, [part], {seconds: stage.step[part]}, '#b9bfc5');
  return tree;
}
function tell(node, whole) {
  let text = node.name + ': ' + ms(node.seconds) + ' ms, ' + percent(node.seconds, whole) + ' of the step';
  if (node.times) text += ', ' + Math.round(node.times * 100) / 100 + ' times';
  if (node.operations) text += '; ' + giga(node.operations, node.seconds) + ' Gop/s';
  if (node.bytes) text += '; ' + giga(node.bytes, node.seconds) + ' GB/s';
  if (data.machine && node.roof) text += '; ' + percent(node.roof, node.seconds) + ' of the roof';
  at('detail').textContent = text;
}
function draw(tree, root) {
  const flame = at('flame'), rowHeight = 22;
  flame.replaceChildren();
  let depth = 0;
  const put = (node, level, left, width) => {
    depth = Math.max(depth, level + 1);
    const box = make('button', width > .02 ? node.name : '');
    Object.assign(box.style, {left: left * 100 + '%', width: width * 100 + '%', top: level * rowHeight + 'px',
                              background: node.colour || '#b9bfc5'});
    box.setAttribute('aria-label', node.name);
    box.onmouseenter = box.onfocus = () => tell(node, tree.seconds);
    box.onclick = () => draw(tree, node);
    flame.append(box);
    const sorted = [...node.parts.values()].sort((a, b) => b.seconds - a.seconds);
    for (const part of sorted) {
      const share = node.seconds > 0 ? width * part.seconds / node.seconds : 0;
      if (share > .0008) put(part, level + 1, left, share);
      left += share;
    }
  };
  put(root, 0, 0, 1);
  flame.style.height = depth * rowHeight + 'px';
  tell(root, tree.seconds);
}
// Of a machine that the plan knows: an assumed one says nothing of this.
function ofRoof(seconds, taken) { return data.machine ? percent(seconds, taken) : ''; }
function showStage(stage) {
  const tree = treeOf(stage), whole = stage.step.total;
  draw(tree, tree);
  at('whole').onclick = () => draw(tree, tree);
  table(at('kernels'), ['kernel', 'ms', 'of step', 'calls', 'Gop/s', 'GB/s', 'of roof'], stage.kernels.map(row =>
    [row.kernel, ms(row.seconds), percent(row.seconds, whole), Math.round(row.times), giga(row.operations, row.seconds),
     giga(row.bytes, row.seconds), ofRoof(row.roof_seconds, row.seconds)]));
  table(at('layers'), ['layer', 'ms', 'of step', 'forward', 'backward', 'update', 'of roof'], stage.layers.map(row => {
    const all = row.forward + row.backward + row.update;
    return [row.layer || '(none)', ms(all), percent(all, whole), ms(row.forward), ms(row.backward), ms(row.update),
            ofRoof(row.roof_seconds, all)];
  }));
  const exchanges = [...stage.exchanges].sort((a, b) => b.seconds - a.seconds);
  table(at('exchanges'), ['cause', 'kind', 'over', 'in', 'ms', 'of it late', 'MB sent', 'times'], exchanges.map(row =>
    [row.cause + (row.because ? ' (' + row.because + ')' : ''), row.kind,
     row.axes.join(', ') + (row.stages.length ? ' stages ' + row.stages.join(', ') : ''), row.function, ms(row.seconds),
     ms(row.late_seconds), (row.sent_bytes / 1e6).toFixed(3), Math.round(row.times)]));
}
at('title').textContent = data.name;
document.title = 'profile of ' + data.name;
at('subtitle').textContent = data.steps + ' steps after the first, ' + data.ranks.length + ' ranks (' +
  Object.entries(data.mesh).map(([axis, size]) => axis + ' ' + size).join(', ') + '), ' + data.threads +
  ' threads each; a step of rank 0 took ' + ms(data.step_seconds) + ' ms. The roof is ' +
  (data.machine ? "that of '" + data.machine + "'." : 'not known (hyc-compile --machine).');
for (const stage of data.stages) at('stage').append(make('option', stage.stage));
at('stage').onchange = () => showStage(data.stages[at('stage').selectedIndex]);
showSteps();
showStage(data.stages[0]);
</script>
</html>
)html";

}  // namespace

std::string profilePage(const nlohmann::ordered_json& profile) {
  std::string text = kBegin;
  // Nothing in the data may end the element that it stands in.
  for (char c : profile.dump()) {
    if (c == '<') {
      text += "\\u003c";
    } else {
      text += c;
    }
  }
  return text + kEnd;
}

ProfilePartials profilePartials(const std::string& partial) { return {partial + ".json", partial + ".html"}; }

std::string profilePagePath(const std::string& path) {
  static const std::string kEnding = ".json";
  const bool isJson =
      path.size() > kEnding.size() && path.compare(path.size() - kEnding.size(), kEnding.size(), kEnding) == 0;
  return (isJson ? path.substr(0, path.size() - kEnding.size()) : path) + ".html";
}

}  // namespace hycrt
