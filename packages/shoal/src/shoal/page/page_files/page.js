"use strict";
// Draws one run (run.json) into the page. Text from outside is only ever set as text.

const SVG = "http://www.w3.org/2000/svg";

function element(tag, attributes = {}, ...children) {
  const node = tag === "svg" || element.svg.has(tag)
    ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes))
    if (value !== null && value !== undefined) node.setAttribute(name, value);
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}
element.svg = new Set(["g", "rect", "text", "path", "line", "title", "circle"]);

function duration(seconds) {
  if (seconds === null || seconds === undefined) return "unknown";
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds), minutes = Math.floor(whole / 60);
  if (!minutes) return `${whole} s`;
  if (minutes < 60) return `${minutes} min ${whole % 60} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

function money(usd) {
  if (usd === null || usd === undefined) return "unknown";
  if (usd > 0 && usd < 0.0001) return "< $0.0001";
  return `$${usd.toFixed(usd < 1 ? 4 : 2)}`;
}

function number(value) {
  if (value === null || value === undefined) return "–";
  return Number.isInteger(value) ? value.toLocaleString("en") : String(+value.toPrecision(5));
}

function plural(count, word) { return `${count} ${word}${count === 1 ? "" : "s"}`; }

function section(title, ...children) {
  const id = title.toLowerCase().replace(/[^a-z]+/g, "-");
  return element("section", { "aria-labelledby": id }, element("h2", { id }, title), ...children.filter(Boolean));
}

function table(head, rows) {
  return element("div", { class: "scroll" }, element("table", {},
    element("thead", {}, element("tr", {}, ...head.map((text) => element("th", { scope: "col" }, text)))),
    element("tbody", {}, ...rows.map((row) => element("tr", {}, ...row.map((cell, index) => element("td", { "data-head": head[index] }, cell)))))));
}

// In the place of a section that has nothing to show, why.
function nothing(title, why) { return element("p", { class: "nothing soft" }, `${title}: ${why}`); }

const WORDS = ["yes", "no", "not compared"];

function mark(value) { // without words, but for who listens to the page
  const which = value === true ? 0 : value === false ? 1 : 2;
  return element("span", { class: ["yes", "no", "unknown"][which], role: "img", "aria-label": WORDS[which] }, "✓✗–"[which]);
}

function sign(value, words = WORDS) {
  const which = value === true ? 0 : value === false ? 1 : 2;
  return element("span", { class: ["yes", "no", "unknown"][which] }, `${"✓✗–"[which]} ${words[which]}`);
}

// At most so many characters, and never a part of a word.
function shortened(text, most) {
  const end = text.length > most ? text.lastIndexOf(" ", most) : -1;
  return end > 0 ? `${text.slice(0, end)} …` : text;
}

function code(text) { return element("code", {}, text); }

function verdict(record) {
  const { run, verdict: why, money: cost, gates, made } = record;
  const words = { Succeeded: "succeeded", Failed: "failed", Stopped: "was stopped", Executing: "is running", Stopping: "is stopping",
    CompletedWithFailures: "completed with failures" };
  const box = element("header", { class: `verdict ${run.status}`, role: "status" },
    element("h1", {}, `${titleOf(run)} ${words[run.status] || run.status}`));
  if (why.line) box.append(element("blockquote", { class: "mono" }, why.line));
  if (why.step || why.reason) {
    const where = [why.step && `step ${why.step}`, why.host && `host ${why.host}`,
      why.rank !== null && `rank ${why.rank}`].filter(Boolean).join(", ");
    const reason = why.reason || "no reason was given", short = shortened(reason.split("\n")[0], 200);
    box.append(element("p", {}, element("strong", {}, where || "cause"), why.line ? "" : `: ${short}`));
    if (why.line || short !== reason) box.append(element("details", {}, element("summary", {}, "the whole reason"), element("pre", { class: "log" }, reason)));
  }
  box.append(trained(record.training), element("p", { class: "soft" }, `run ${run.id} of ${run.pipeline}, account ${run.account}, ${run.region}`
    + (run.is_local ? ", played by shoal-local on this machine" : "")));
  for (const command of why.next ? why.next.split("\n") : []) box.append(element("p", {}, "next: ", code(command)));
  const left = made.filter((each) => each.gone === false).length;
  const isKnown = made.every((each) => each.gone !== null);
  const count = isKnown ? String(left) : left ? `at least ${left}` : "not known";
  const commit = record.lineage.find((link) => link.what === "commit");
  const facts = [["took", duration(run.seconds)], [costs.word(run), money(cost.usd)]];
  if (commit) facts.push(["commit of the code", commit.holds ? element("span", {}, code(commit.value.slice(0, 12)), " ", mark(true)) : commit.value]);
  if (cost.usd_per_hour_now > 0) facts.push([run.ended_at ? "still costs" : "a stop saves", `${money(cost.usd_per_hour_now)} an hour`]);
  for (const gate of gates) facts.push([gate.metric, element("span", {}, number(gate.value), " ", mark(gate.passed))]);
  facts.push(!run.ended_at ? ["running now", count] : left ? [`still there at ${record.observed_at.slice(11, 19)}`, element("span", { class: "no" }, count)]
    : ["left running", element("span", { class: isKnown ? "yes" : "unknown" }, isKnown ? "nothing" : count)]);
  box.append(element("dl", { class: "numbers" }, ...facts.map(([name, value]) =>
    element("div", {}, element("dt", {}, name), element("dd", {}, value)))));
  if (commit) box.append(element("p", { class: "soft" }, `commit: ${commit.how}`));
  return box;
}

function titleOf(run) { return run.workload === run.environment ? run.workload : `${run.workload} in ${run.environment}`; }

// What was trained, how, and on what.
function trained(training) {
  if (!training) return "";
  const options = Object.entries(training.hyperparameters).map(([name, value]) => `${name}=${value}`).join(" ");
  const got = training.instance_type ? `${training.instance_count} × ${training.instance_type}` : "no type selected yet";
  const words = [training.image.split("/").pop(), training.strategy, got, training.terms, training.processes];
  const server = training.mlflow ? code(training.mlflow) : null, isLink = /^https?:/.test(training.mlflow ?? "");
  const kept = training.checkpoint, wait = training.waited;
  return element("p", {}, words.filter(Boolean).join(", "), options ? element("br") : null, options ? code(options) : null,
    wait && element("br"), wait && `waited ${duration(wait.seconds)} for instances${wait.reason ? `: ${wait.reason}` : ""}`,
    kept && element("br"), kept && `newest checkpoint in S3: ${kept.file}, ${duration(kept.seconds)} old`,
    server && element("br"), server && "MLflow: ", isLink ? element("a", { href: training.mlflow }, server) : server);
}

function timeline(record) {
  const began = Date.parse(record.run.started_at);
  const now = Date.parse(record.run.ended_at || record.observed_at);
  const total = Math.max((now - began) / 1000, 0.001);
  const width = Math.max(320, Math.min(1168, document.body.clientWidth - 32));
  const label = width < 560 ? 0 : 210, row = width < 560 ? 38 : 26, top = 22;
  const right = 76;
  const scale = (at) => label + (width - label - right) * Math.min(Math.max((at - began) / 1000 / total, 0), 1);
  const steps = record.steps;
  const place = new Map(steps.map((step, index) => [step.name, index]));
  const functions = groups(record.cleanups, (each) => each.by);
  const lines = steps.length + functions.length;
  const svg = element("svg", { viewBox: `0 0 ${width} ${top + lines * row + 4}`, width: "100%", role: "img",
    "aria-label": "Steps of the run over time; the table below has the same" });
  const ticks = label ? 4 : 2;
  for (let part = 0; part <= ticks; part++) {
    const x = label + (width - label - right) * part / ticks;
    svg.append(element("line", { class: "grid", x1: x, x2: x, y1: top - 6, y2: top + lines * row }));
    svg.append(element("text", { class: "soft", x, y: 12, "text-anchor": part ? "middle" : "start" }, duration(total * part / ticks)));
  }
  const middle = (index) => top + index * row + (label ? row / 2 : row - 10);
  steps.forEach((step, index) => {
    for (const before of step.after) {
      const other = steps[place.get(before)];
      if (!other || !other.ended_at || !step.started_at || step.after.some((each) => {
        const between = steps[place.get(each)];
        return each !== before && between && between.after.includes(before);
      })) continue;
      const x1 = scale(Date.parse(other.ended_at)), x2 = scale(Date.parse(step.started_at));
      svg.append(element("path", { class: "edge", d: `M${x1} ${middle(place.get(before))} C${x1 + 14} ${middle(place.get(before))} ${x2 - 14} ${middle(index)} ${x2} ${middle(index)}` }));
    }
  });
  steps.forEach((step, index) => {
    const y = middle(index);
    svg.append(element("text", { x: label ? 0 : 2, y: label ? y + 4 : y - 12 }, step.name
      + (step.attempts > 1 ? ` (attempt ${step.attempts})` : "") + ({ Failed: " ✗", Stopped: " (stopped)" }[step.status] || "")
      + (step.status === "NotStarted" && record.run.ended_at ? " (not reached)" : "")));
    if (!step.started_at) {
      svg.append(element("rect", { class: "NotStarted", x: scale(now) - 4, y: y - 6, width: 8, height: 12 }));
      return;
    }
    const x = scale(Date.parse(step.started_at)), end = scale(step.ended_at ? Date.parse(step.ended_at) : now);
    const bar = element("rect", { class: step.status, x, y: y - 7, width: Math.max(end - x, 3), height: 14, rx: 2 },
      element("title", {}, `${step.name}: ${step.status}, ${duration(step.seconds)}`));
    svg.append(bar);
    for (const phase of step.phases) {
      if (phase.name === "Training" || !phase.ended_at) continue;
      const from = scale(Date.parse(phase.started_at)), to = scale(Date.parse(phase.ended_at));
      svg.append(element("rect", { class: "phase", x: from, y: y - 7, width: Math.max(to - from, 0.5), height: 14 },
        element("title", {}, `${phase.name}: ${duration((Date.parse(phase.ended_at) - Date.parse(phase.started_at)) / 1000)}`)));
    }
    svg.append(element("text", { class: "soft", x: end + 6, y: y + 4 }, duration(step.seconds)));
  });
  functions.forEach((calls, index) => {
    const y = middle(steps.length + index);
    svg.append(element("text", { x: label ? 0 : 2, y: label ? y + 4 : y - 12 }, FUNCTIONS[calls[0].by]));
    let last = -Infinity;
    for (const { at, text } of calls) {
      const x = scale(Date.parse(at)), late = (Date.parse(at) - now) / 1000;
      svg.append(element("circle", { class: "call", cx: x, cy: y, r: 5 }, element("title", {}, `${at.slice(11, 19)}: ${text}`)));
      last = Math.max(last, record.run.ended_at && late > 0 ? late : -Infinity);
    }
    if (last > 0) svg.append(element("text", { class: "soft", x: scale(now) + 8, y: y + 4 }, `+${duration(last)}`));
  });
  const seconds = (phase) => duration((Date.parse(phase.ended_at) - Date.parse(phase.started_at)) / 1000);
  const pale = steps.map((step) => [step.name, step.phases.filter((phase) => phase.name !== "Training" && phase.ended_at)])
    .filter(([, phases]) => phases.length)
    .map(([name, phases]) => `pale in ${name}: ${phases.map((phase) => `${phase.name} ${seconds(phase)}`).join(", ")}`);
  const rows = steps.map((step) => [step.name, step.type, step.status, String(step.attempts), duration(step.seconds),
    step.phases.map((phase) => phase.ended_at ? `${phase.name} ${seconds(phase)}` : phase.name).join(", "),
    step.after.join(", "), step.reason || ""]);
  return section("Steps", svg,
    pale.length ? element("p", { class: "soft" }, pale.join("; ")) : null,
    element("details", {}, element("summary", {}, "as a table"),
      table(["step", "type", "status", "attempts", "took", "phases", "waits for", "reason"], rows),
      functions.length ? table(["function", "when", "what it did"], record.cleanups.map((each) => [FUNCTIONS[each.by], each.at.slice(11, 19), each.text])) : ""));
}

const FUNCTIONS = { teardown: "teardown function", sweep: "sweeper" };
const DARK = matchMedia("(prefers-color-scheme: dark)").matches;
const COLOURS = [DARK ? "#70b8ff" : "#0b68cb", "#e5484d", "#30a46c", "#8e4ec6", "#ad7f00", "#12a594", "#8b8d98"];

function groups(list, key) {
  const found = new Map();
  for (const each of list) found.set(key(each), [...(found.get(key(each)) || []), each]);
  return [...found.values()];
}

// Points in the order of their steps; of a step that was trained twice, after a restart, the last.
function ordered(points) {
  if (points.every((point, index) => !index || points[index - 1][0] < point[0])) return points;
  return [...new Map(points.map((point) => [point[0], point])).values()].sort((a, b) => a[0] - b[0]);
}

// The mean over the lanes at each step that at least half of them have reached; there may be none.
function mean(lanes) {
  if (lanes.length === 1) return lanes[0].points;
  const sums = new Map();
  for (const { points } of lanes)
    for (const [x, y, at] of points) {
      const sum = sums.get(x) || [0, 0, 0];
      sums.set(x, [sum[0] + y, Math.max(sum[1], at), sum[2] + 1]);
    }
  return [...sums].filter(([, sum]) => 2 * sum[2] >= lanes.length).sort((a, b) => a[0] - b[0])
    .map(([x, [sum, at, count]]) => [x, sum / count, at]);
}

function laneOf(curve) {
  return [curve.host, curve.rank !== null && `rank ${curve.rank}`].filter(Boolean).join(" ") || "this run";
}

// One training's lanes of a number, with their mean where there are several.
function lanesOf(list) {
  const lanes = list.map((curve) => ({ ...curve, points: ordered(curve.points), label: laneOf(curve) }))
    .sort((a, b) => (a.rank ?? -1) - (b.rank ?? -1) || a.label.localeCompare(b.label, "en", { numeric: true }));
  const points = mean(lanes);
  return { step: list[0].step, lanes: lanes.length > 1 ? lanes : [], points, cut: list.reduce((sum, curve) => sum + curve.cut, 0),
    label: lanes.length > 1 ? `mean of ${lanes.length}` : lanes[0].label };
}

const FEW = 6;

function curveTable({ lanes, points }) {
  const rows = thin(points, 50);
  if (!points.length) return table(["of", "step", "value"],
    thin(lanes.flatMap((lane) => lane.points.map(([x, y]) => [lane.label, number(x), number(y)])), 50));
  if (!lanes.length) return table(["step", "value", "after"], rows.map(([x, y, at]) => [number(x), number(y), duration(at)]));
  const values = lanes.map((lane) => new Map(lane.points.map(([x, y]) => [x, y])));
  if (lanes.length <= FEW) return table(["step", "mean", ...lanes.map((lane) => lane.label)],
    rows.map(([x, y]) => [number(x), number(y), ...values.map((each) => number(each.get(x)))]));
  return table(["step", "mean", "lowest", "of", "highest", "of"], rows.map(([x, y]) => {
    const known = lanes.map((lane, index) => [values[index].get(x), lane.label]).filter(([value]) => value !== undefined);
    known.sort((a, b) => a[0] - b[0]);
    return [number(x), number(y), ...[known[0], known[known.length - 1]].flatMap(([value, label]) => [number(value), label])];
  }));
}

function curves(record) {
  const names = [...new Set(record.curves.map((curve) => curve.name))];
  if (!names.length) return null;
  const grid = element("div", { class: "curves" });
  const draw = [];
  const isOf = (name) => (curve) => curve.name === name;
  const limits = new Map(record.gates.map((gate) => [curveOf(gate.metric, names), gate]));
  for (const name of names) {
    const own = groups(record.curves.filter(isOf(name)), (curve) => curve.step).map(lanesOf);
    const ghosts = (record.others || []).flatMap((other) => groups(other.curves.filter(isOf(name)), (curve) => curve.step)
      .map((list) => ({ points: lanesOf(list).points, label: other.label }))).filter((ghost) => ghost.points.length);
    const place = element("div", { role: "img", "aria-label": `${name}; the table below has the same` });
    const { unit } = record.curves.find(isOf(name));
    grid.append(element("div", { class: "curve" }, element("h3", {}, name + (unit ? ` (${unit})` : "")), place, ...own.map((each) => {
      const last = each.points[each.points.length - 1];
      const words = `${own.length > 1 ? `${each.step}: ` : ""}${plural(each.points.length, last ? "point" : "common point")}${each.lanes.length ? ` of ${each.lanes.length} lanes` : ""}${last ? `, the last ${number(last[1])}` : ""}`
        + (each.cut ? `; cut: ${number(each.cut)} more points between these are left out` : "");
      return element("details", {}, element("summary", {}, words), curveTable(each));
    })));
    const gate = limits.get(name);
    if ([...own, ...ghosts].some((each) => each.points.length !== 1)) draw.push(() => plot(place, own, ghosts, gate));
    else place.replaceWith(...own.map((each) => element("p", { class: "one" }, number(each.points[0][1]))),
      gate ? element("p", { class: "soft" }, `gate: ${gate.limit}`) : "",
      ...ghosts.map((each) => element("p", { class: "soft" }, `${each.label}: ${number(each.points[0][1])}`)));
  }
  return { node: section("Curves", grid), draw };
}

// The curve of what a gate measures in the end; that of the training itself where there is no other.
function curveOf(metric, names) {
  const same = names.filter((name) => name.split(":").pop() === metric);
  return same.find((name) => !name.startsWith("train:")) || same[0];
}

// A gate's limit as a line through the whole curve; none where it is not a number.
function limitOf(gate, drawn) {
  const limit = gate && /^at (?:least|most) (\S+)/.exec(gate.limit), steps = drawn.flatMap(({ points }) => points.map((point) => point[0]));
  if (!limit || !steps.length || !Number.isFinite(+limit[1])) return [];
  const ends = steps.reduce(([low, high], x) => [Math.min(low, x), Math.max(high, x)], [Infinity, -Infinity]);
  return [{ points: ends.map((x) => [x, +limit[1]]), label: `gate: ${limit[0]}`, width: 1.6, dash: [8, 4], stroke: DARK ? "#f0c000" : "#946800", bare: true }];
}

function thin(points, most) {
  const every = Math.ceil(points.length / most);
  return points.filter((_, index) => index % every === 0 || index === points.length - 1);
}

function plot(place, own, ghosts, gate) {
  const drawn = [];
  own.forEach(({ step, lanes, points, label }, index) => {
    const words = own.length > 1 ? `${step} ${label}` : label;
    lanes.forEach((lane, place) => drawn.push({ ...lane, width: 0.8, ...(lanes.length > FEW
      ? { stroke: DARK ? "#b794e866" : "#8e4ec655", class: "many" } : { stroke: COLOURS[1 + place % (COLOURS.length - 1)] }) }));
    if (points.length) drawn.push({ points, label: words, width: lanes.length ? 2.6 : 1.6, stroke: COLOURS[index % COLOURS.length] });
  });
  for (const ghost of ghosts) drawn.push({ ...ghost, width: 1, dash: [4, 4], stroke: "#8b8d98" });
  drawn.push(...limitOf(gate, drawn));
  const tables = drawn.map(({ points }) => [points.map((point) => point[0]), points.map((point) => point[1])]);
  const colour = getComputedStyle(document.body).color;
  const grid = { stroke: "#8888", width: 0.5 };
  new uPlot({
    width: Math.max(place.clientWidth, 260), height: 220, scales: { x: { time: false } },
    cursor: { sync: { key: "run" } }, legend: { show: drawn.length > 1 },
    axes: [{ stroke: colour, grid, ticks: grid }, { stroke: colour, grid, ticks: grid, size: 64 }],
    series: [{ label: "step" }, ...drawn.map(({ points, label, width, stroke, dash, class: name, bare }) => (
      { label, width, stroke, dash, class: name, spanGaps: true, points: { show: !bare && points.length < 3 } }))],
  }, uPlot.join(tables), place);
}

function lineage(record) {
  if (!record.lineage.length) return null;
  return section("From commit to endpoint", table(["link", "value", "holds", "who says so"],
    record.lineage.map((link) => [link.what, code(link.value), sign(link.holds), link.how])));
}

function costs(record) {
  const { items, tags = {} } = record.money;
  if (!items.length) return null;
  const sources = [...new Set(items.map((item) => item.source).filter(Boolean))];
  return section("Machines and money", table(["step", "machines", "seconds", "an hour", costs.word(record.run)],
    items.map((item) => [item.step + (item.runs ? " (running)" : ""), item.instance_type ? `${item.instance_count} × ${item.instance_type}` : "not known",
      number(item.seconds && +item.seconds.toFixed(item.seconds < 10 ? 1 : 0)), money(item.usd_per_hour), money(item.usd)])),
    ...sources.map((source) => element("p", { class: "soft" }, `prices: ${source}`)),
    element("p", { class: "soft" }, "Not counted: storage and requests. Not measured: use of GPUs and network."),
    Object.keys(tags).length ? element("p", { class: "soft" }, `In the bill under the tags ${Object.entries(tags).map((pair) => pair.join("=")).join(", ")}.`) : null,
    record.run.is_local ? element("p", { class: "soft" }, "shoal-local ran this: the seconds are this machine's, and nothing was billed.") : null);
}

costs.word = (run) => run.is_local ? "would cost on AWS" : run.ended_at ? "cost" : "cost so far";

function results(record) {
  if (!record.gates.length && !record.metrics) return null;
  const limits = new Map(record.gates.map((gate) => [gate.metric, gate]));
  const values = { ...(record.metrics ? record.metrics.values : {}) };
  for (const gate of record.gates) values[gate.metric] = gate.value;
  const node = section("Evaluation", table(["metric", "measured", "must be", ""],
    Object.entries(values).map(([name, value]) => {
      const gate = limits.get(name);
      return [name, number(value), gate ? gate.limit : "", gate ? sign(gate.passed) : ""];
    })));
  if (record.answers.length) node.append(table(["request to the endpoint", "answer", "as expected"],
    record.answers.map((answer) => [answer.request, code(JSON.stringify(answer.shown)), sign(answer.passed)])));
  return node;
}

function differences(record) {
  const nodes = (record.others || []).map((other) => {
    const keys = [...new Set([...Object.keys(record.parameters), ...Object.keys(other.parameters)])];
    const rows = keys.filter((key) => record.parameters[key] !== other.parameters[key])
      .map((key) => [key, code(other.parameters[key] ?? "–"), code(record.parameters[key] ?? "–")]);
    const link = (what) => record.lineage.find((each) => each.what === what)?.value;
    const origins = [["definition", other.definition, record.run.definition_sha256, 12], ["data", other.data, link("data")],
      ["image", other.image, link("image")], ["commit", other.commit, link("commit"), 12]];
    for (const [key, there, here, length] of origins)
      if ((there ?? null) !== (here ?? null)) rows.unshift([key, ...[there, here].map((value) => code((value ?? "–").slice(0, length)))]);
    for (const key of new Set([...Object.keys(other.values), ...Object.keys(record.metrics ? record.metrics.values : {})])) {
      const mine = record.metrics ? record.metrics.values[key] : undefined;
      if (mine !== other.values[key]) rows.push([key, number(other.values[key]), number(mine)]);
    }
    return element("div", {}, element("p", {}, `${other.label}: run ${other.id}, ${other.status}`),
      rows.length ? table(["", "there", "here"], rows) : element("p", { class: "soft" }, "same parameters, same measurements"));
  });
  return nodes.length ? section("Beside other runs", ...nodes) : null;
}

function parameters(record) {
  if (!Object.keys(record.parameters).length) return null;
  return section("Parameters", table(["parameter", "value"],
    Object.entries(record.parameters).map(([name, value]) => [name, code(value)])));
}

function made(record) {
  if (!record.made.length) return null;
  return section("Made and gone", table(["what", "name", "state", "ended or gone"],
    record.made.map((each) => [each.kind, code(each.name), each.state, sign(each.gone, ["yes", "no", "not known"])])));
}

const chosen = { step: null, host: "", search: "" };

function stepParts(record) {
  const nodes = record.parts.map(({ step, host, milliseconds }) => {
    const whole = Object.values(milliseconds).reduce((sum, each) => sum + each, 0) || 1;
    const svg = element("svg", { viewBox: "0 0 1000 24", width: "100%", height: 24, preserveAspectRatio: "none", role: "img", "aria-label": "Parts of a step; the table below has the same" });
    let x = 0;
    Object.entries(milliseconds).forEach(([name, ms], index) => {
      const width = 1000 * ms / whole;
      svg.append(element("rect", { x, y: 0, width, height: 24, fill: COLOURS[index % COLOURS.length] }, element("title", {}, `${name}: ${ms} ms`)));
      x += width;
    });
    const rows = Object.entries(milliseconds).map(([name, ms], index) => {
      const key = element("span", { "aria-hidden": "true" }, "■ ");
      key.style.color = COLOURS[index % COLOURS.length];
      return [element("span", {}, key, name), `${number(ms)} ms`, `${(100 * ms / whole).toFixed(0)} %`];
    });
    return element("div", {}, element("p", { class: "soft" }, [step, host].filter(Boolean).join(", ")), svg, table(["part", "time", "share"], rows));
  });
  const title = "Where a step's time goes";
  if (nodes.length) return section(title, ...nodes);
  const isTrained = record.steps.some((step) => step.type === "Training" && record.logs[step.name]);
  return isTrained ? nothing(title, "not measured: the training's log has no parts of a step") : null;
}

function calls(record) {
  const title = "Calls of AWS's API";
  if (!record.calls) return nothing(title, `not read: they are in ${record.run.is_local ? "shoal-local's log of requests" : "CloudTrail"}`);
  if (!record.calls.length) return null;
  const denied = record.calls.filter((each) => each.denied).length;
  return section(title, element("p", {}, denied ? element("span", { class: "no" }, `${plural(denied, "kind")} of calls denied`) : element("span", { class: "yes" }, "none was denied")),
    element("details", denied ? { open: "" } : {}, element("summary", {}, `${plural(record.calls.length, "kind")} of calls by role`),
      table(["role", "call", "times", "allowed"], record.calls.map((each) => [each.role, code(each.call), String(each.count), sign(!each.denied)]))));
}

function logs(record) {
  const steps = Object.keys(record.logs);
  if (!steps.length) return null;
  const failed = chosen.step ?? record.verdict.step;
  const step = element("select", { "aria-label": "step" }, ...steps.map((name) => element("option", name === failed ? { selected: "" } : {}, name)));
  const host = element("select", { "aria-label": "host and rank" });
  const search = element("input", { type: "search", placeholder: "search (regular expression)", "aria-label": "search" });
  const out = element("pre", { class: "log", tabindex: "0" });
  const about = element("p", { class: "soft" });
  const lane = (line) => line[1] + (line[2] === null ? "" : ` rank ${line[2]}`);
  function lanes() {
    const names = [...new Set(record.logs[step.value].lines.map(lane))].sort();
    host.replaceChildren(element("option", { value: "" }, "all hosts and ranks"), ...names.map((name) => element("option", {}, name)));
  }
  function show() {
    Object.assign(chosen, { host: host.value, search: search.value });
    let pattern = null;
    try { pattern = search.value ? new RegExp(search.value, "i") : null; search.setCustomValidity(""); }
    catch (error) { search.setCustomValidity(error.message); }
    const { lines, cut } = record.logs[step.value];
    const some = lines.filter((line) => (!host.value || lane(line) === host.value) && (!pattern || pattern.test(line[3])));
    const rows = document.createDocumentFragment();
    for (const line of some) {
      const found = pattern && pattern.exec(line[3]);
      rows.append(element("span", {}, `${line[0].slice(11, 19)} ${lane(line)}  `));
      if (found && found[0]) rows.append(line[3].slice(0, found.index), element("mark", {}, found[0]), line[3].slice(found.index + found[0].length) + "\n");
      else rows.append(line[3] + "\n");
    }
    out.replaceChildren(rows);
    about.textContent = `${some.length} of ${lines.length} lines` + (cut ? `; cut: ${cut} more in the middle are in CloudWatch Logs only` : "");
  }
  step.addEventListener("change", () => { chosen.step = step.value; lanes(); host.value = ""; show(); });
  host.addEventListener("change", show);
  search.addEventListener("input", show);
  lanes();
  search.value = chosen.search;
  if ([...host.options].some((each) => each.value === chosen.host)) host.value = chosen.host;
  show();
  return section("Logs", element("div", { class: "controls" }, step, host, search), about, out);
}

function unread(record) {
  if (!record.unread.length) return null;
  return section("Not read", element("ul", {}, ...record.unread.map((text) => element("li", {}, text))));
}

function draw(record) {
  document.title = `${record.run.status}: ${titleOf(record.run)}`;
  const pictures = curves(record);
  const parts = [verdict(record), timeline(record), results(record), pictures && pictures.node, stepParts(record), costs(record), logs(record),
    differences(record), lineage(record), made(record), calls(record), parameters(record), unread(record),
    element("footer", { class: "soft" }, `as of ${record.observed_at}; run.json version ${record.version}`)];
  document.querySelector("main").replaceChildren(...parts.filter(Boolean));
  for (const picture of pictures ? pictures.draw : []) picture();
}

draw(JSON.parse(document.getElementById("run").textContent));
