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
  if (seconds < 60) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.round(seconds % 60)} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

function money(usd) {
  if (usd === null || usd === undefined) return "unknown";
  return `$${usd.toFixed(usd < 1 ? 4 : 2)}`;
}

function number(value) {
  if (value === null || value === undefined) return "–";
  return Number.isInteger(value) ? value.toLocaleString("en") : String(+value.toPrecision(5));
}

function section(title, ...children) {
  const id = title.toLowerCase().replace(/[^a-z]+/g, "-");
  return element("section", { "aria-labelledby": id }, element("h2", { id }, title), ...children);
}

function table(head, rows) {
  return element("div", { class: "scroll" }, element("table", {},
    element("thead", {}, element("tr", {}, ...head.map((text) => element("th", { scope: "col" }, text)))),
    element("tbody", {}, ...rows.map((row) => element("tr", {}, ...row.map((cell) => element("td", {}, cell)))))));
}

function sign(value, words = ["yes", "no", "not compared"]) {
  const which = value === true ? 0 : value === false ? 1 : 2;
  return element("span", { class: ["yes", "no", "unknown"][which] }, `${"✓✗–"[which]} ${words[which]}`);
}

function code(text) { return element("code", {}, text); }

function verdict(record) {
  const { run, verdict: why, money: cost, gates, made } = record;
  const words = { Succeeded: "succeeded", Failed: "failed", Stopped: "was stopped", Executing: "is running", Stopping: "is stopping" };
  const box = element("header", { class: `verdict ${run.status}`, role: "status" },
    element("h1", {}, `${run.workload} in ${run.environment} ${words[run.status] || run.status}`),
    element("p", { class: "soft" }, `run ${run.id} of ${run.pipeline}, account ${run.account}, ${run.region}`
      + (run.is_local ? ", played by shoal-local on this machine" : "")));
  if (why.step || why.reason) {
    const where = [why.step && `step ${why.step}`, why.host && `host ${why.host}`,
      why.rank !== null && `rank ${why.rank}`].filter(Boolean).join(", ");
    const reason = why.reason || "no reason was given";
    box.append(element("p", {}, element("strong", {}, where || "cause"), ": ", reason.split("\n")[0].slice(0, 200)));
    if (reason.length > 200) box.append(element("details", {}, element("summary", {}, "the whole reason"), element("pre", { class: "log" }, reason)));
  }
  if (why.line) box.append(element("blockquote", { class: "mono" }, why.line));
  if (why.next) box.append(element("p", {}, "next: ", code(why.next)));
  const left = made.filter((each) => each.gone === false);
  const facts = [["took", duration(run.seconds)], ["cost so far", money(cost.usd)]];
  if (cost.usd_per_hour_now > 0) facts.push(["a stop saves", `${money(cost.usd_per_hour_now)} an hour`]);
  for (const gate of gates) facts.push([gate.metric, element("span", {}, number(gate.value), " ", sign(gate.passed, ["", "", ""]))]);
  facts.push(!run.ended_at ? ["running now", String(left.length)] : ["left running", left.length ? element("span", { class: "no" }, String(left.length)) : element("span", { class: "yes" }, "nothing")]);
  box.append(element("dl", { class: "numbers" }, ...facts.map(([name, value]) =>
    element("div", {}, element("dt", {}, name), element("dd", {}, value)))));
  return box;
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
  const svg = element("svg", { viewBox: `0 0 ${width} ${top + steps.length * row + 4}`, width: "100%", role: "img",
    "aria-label": "Steps of the run over time; the table below has the same" });
  const ticks = label ? 4 : 2;
  for (let part = 0; part <= ticks; part++) {
    const x = label + (width - label - right) * part / ticks;
    svg.append(element("line", { class: "grid", x1: x, x2: x, y1: top - 6, y2: top + steps.length * row }));
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
      + (step.attempts > 1 ? ` (attempt ${step.attempts})` : "")));
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
  const rows = steps.map((step) => [step.name, step.type, step.status, duration(step.seconds),
    step.phases.map((phase) => phase.ended_at
      ? `${phase.name} ${duration((Date.parse(phase.ended_at) - Date.parse(phase.started_at)) / 1000)}` : phase.name).join(", "),
    step.after.join(", "), step.reason || ""]);
  return section("Steps", svg, element("details", {}, element("summary", {}, "as a table"),
    table(["step", "type", "status", "took", "phases", "waits for", "reason"], rows)));
}

const COLOURS = ["#0b68cb", "#e5484d", "#30a46c", "#8e4ec6", "#ad7f00", "#12a594", "#8b8d98"];

function curves(record) {
  const names = [...new Set(record.curves.map((curve) => curve.name))];
  if (!names.length) return null;
  const grid = element("div", { class: "curves" });
  const draw = [];
  for (const name of names) {
    const own = record.curves.filter((curve) => curve.name === name);
    const ghosts = (record.others || []).flatMap((other) => other.curves
      .filter((curve) => curve.name === name).map((curve) => ({ ...curve, ghost: other.label })));
    const all = [...own, ...ghosts].map((curve) => ({ ...curve, label: curve.ghost || curve.host || "this run" }));
    const place = element("div", {});
    const unit = own[0].unit ? ` (${own[0].unit})` : "";
    const last = own[0].points[own[0].points.length - 1];
    grid.append(element("div", { class: "curve" }, element("h3", {}, name + unit), place,
      element("details", {}, element("summary", {}, `${own[0].points.length} points, the last ${number(last[1])}`),
        table(["step", "value", "after"], thin(own[0].points, 50).map(([x, y, at]) => [number(x), number(y), duration(at)])))));
    draw.push(() => plot(place, all));
  }
  return { node: section("Curves", grid), draw };
}

function thin(points, most) {
  const every = Math.ceil(points.length / most);
  return points.filter((_, index) => index % every === 0 || index === points.length - 1);
}

function plot(place, all) {
  const tables = all.map((curve) => [curve.points.map((point) => point[0]), curve.points.map((point) => point[1])]);
  const colour = getComputedStyle(document.body).color;
  const grid = { stroke: "#8888", width: 0.5 };
  const options = {
    width: Math.max(place.clientWidth, 260), height: 220, scales: { x: { time: false } },
    cursor: { sync: { key: "run" } }, legend: { show: all.length > 1 },
    axes: [{ stroke: colour, grid, ticks: grid }, { stroke: colour, grid, ticks: grid, size: 64 }],
    series: [{ label: "step" }, ...all.map((curve, index) => curve.ghost
      ? { label: curve.label, stroke: "#8b8d98", dash: [4, 4], width: 1, spanGaps: true, points: { show: false } }
      : { label: curve.label, stroke: COLOURS[index % COLOURS.length], width: 1.6, spanGaps: true, points: { show: curve.points.length < 3 } })],
  };
  new uPlot(options, uPlot.join(tables), place);
}

function lineage(record) {
  if (!record.lineage.length) return null;
  return section("From code to endpoint", table(["link", "value", "holds", "who says so"],
    record.lineage.map((link) => [link.what, code(link.value), sign(link.holds), link.how])));
}

function costs(record) {
  const items = record.money.items;
  if (!items.length) return null;
  const sources = [...new Set(items.map((item) => item.source).filter(Boolean))];
  return section("Machines and money", table(["step", "machines", "seconds", "an hour", "so far"],
    items.map((item) => [item.step + (item.runs ? " (running)" : ""), `${item.instance_count} × ${item.instance_type}`,
      number(Math.round(item.seconds)), money(item.usd_per_hour), money(item.usd)])),
    ...sources.map((source) => element("p", { class: "soft" }, `prices: ${source}`)),
    record.run.is_local ? element("p", { class: "soft" }, "shoal-local ran this: the seconds are this machine's, and nothing was billed.") : null);
}

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
  return section("Parameters", table(["parameter", "value"],
    Object.entries(record.parameters).map(([name, value]) => [name, code(value)])));
}

function made(record) {
  if (!record.made.length) return null;
  return section("Made and gone", table(["what", "name", "state", "ended or gone"],
    record.made.map((each) => [each.kind, code(each.name), each.state, sign(each.gone, ["yes", "no", "kept"])])));
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
  return nodes.length ? section("Where a step's time goes", ...nodes) : null;
}

function calls(record) {
  if (!record.calls || !record.calls.length) return null;
  const denied = record.calls.filter((each) => each.denied).length;
  return section("Calls of AWS's API", element("p", {}, denied ? element("span", { class: "no" }, `${denied} kinds of calls were denied`) : element("span", { class: "yes" }, "none was denied")),
    element("details", denied ? { open: "" } : {}, element("summary", {}, `${record.calls.length} kinds of calls by role`),
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
    Object.assign(chosen, { step: step.value, host: host.value, search: search.value });
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
    about.textContent = `${some.length} of ${lines.length} lines` + (cut ? `; ${cut} more in the middle are in CloudWatch Logs only` : "");
  }
  step.addEventListener("change", () => { lanes(); host.value = ""; show(); });
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
  document.title = `${record.run.status}: ${record.run.workload} in ${record.run.environment}`;
  const pictures = curves(record);
  const parts = [verdict(record), timeline(record), results(record), pictures && pictures.node, stepParts(record), costs(record), lineage(record),
    differences(record), logs(record), made(record), calls(record), parameters(record), unread(record),
    element("footer", { class: "soft" }, `as of ${record.observed_at}; run.json version ${record.version}`)];
  document.querySelector("main").replaceChildren(...parts.filter(Boolean));
  for (const picture of pictures ? pictures.draw : []) picture();
}

const first = JSON.parse(document.getElementById("run").textContent);
draw(first);
if (first.live && !first.run.ended_at) {
  const events = new EventSource("events");
  events.addEventListener("message", (event) => {
    const open = [...document.querySelectorAll("details")].map((each) => each.open);
    const [top, left] = [document.querySelector(".log")?.scrollTop, window.scrollY];
    draw(JSON.parse(event.data));
    document.querySelectorAll("details").forEach((each, index) => { each.open = open[index] || false; });
    window.scrollTo(0, left);
    if (top) document.querySelector(".log").scrollTop = top;
  });
  events.addEventListener("ended", () => events.close());
}
