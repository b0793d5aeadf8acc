"use strict";
// What stands under the pointer, which run ratios are to, and the figures as a file. The page is whole without it.
(() => {
  const tip = document.getElementById("tip");
  const trim = (number, digits) => String(Number(number.toPrecision(digits)));
  const show = {
    rate: (v) => v >= 999500 ? trim(v / 1e6, 3) + "M" : v >= 9995 ? trim(v / 1e3, 3) + "k" : trim(v, 4),
    nanos: (v) => v < 999.5 ? trim(v, 3) + " ns" : v < 999500 ? trim(v / 1e3, 3) + " \u00b5s"
      : v < 9.995e8 ? trim(v / 1e6, 3) + " ms" : trim(v / 1e9, 3) + " s",
    share: (v) => trim(v * 100, 3) + " %",
    seconds: (v) => trim(v, 4) + " s",
  };

  const nearest = (line, x) => {
    let best = -1, distance = Infinity;
    line.points.forEach((point, index) => {
      const apart = Math.abs(point[0] - x);
      if (apart < distance) { distance = apart; best = index; }
    });
    return { index: best, distance };
  };

  const row = (name, value, className) => {
    const line = document.createElement("tr");
    const sample = `<svg width="26" height="8"><line x1="0" x2="26" y1="4" y2="4" class="${className}"/></svg>`;
    line.innerHTML = `<td>${sample}</td><td></td>`;
    line.children[0].append(name);
    line.children[1].textContent = value;
    return line;
  };

  const point = (svg, plot, event) => {
    const box = svg.getBoundingClientRect();
    const [left, right, top, bottom] = plot.frame;
    const x = (event.clientX - box.left) * svg.viewBox.baseVal.width / box.width;
    const cursor = svg.querySelector(".cursor");
    if (x < left - 8 || x > right + 8) { leave(svg); return; }
    const table = document.createElement("table");
    let at = null;
    plot.lines.forEach((line) => {
      const found = nearest(line, x);
      if (found.index < 0 || found.distance > (right - left) / 20) return;
      if (at === null || found.distance < at.distance) {
        at = { distance: found.distance, text: line.at[found.index], x: line.points[found.index][0] };
      }
      table.append(row(line.name, show[plot.unit](line.points[found.index][1]), line.class));
    });
    if (at === null) { leave(svg); return; }
    const head = document.createElement("strong");
    head.textContent = at.text;
    tip.replaceChildren(head, table);
    tip.hidden = false;
    const wide = tip.offsetWidth;
    const toTheLeft = event.clientX + wide + 24 > window.innerWidth;
    tip.style.left = Math.max(4, toTheLeft ? event.clientX - wide - 14 : event.clientX + 14) + "px";
    tip.style.top = Math.max(4, Math.min(event.clientY + 14, window.innerHeight - tip.offsetHeight - 4)) + "px";
    cursor.removeAttribute("hidden");
    for (const [name, value] of [["x1", at.x], ["x2", at.x], ["y1", top], ["y2", bottom]]) cursor.setAttribute(name, value);
  };

  const leave = (svg) => {
    tip.hidden = true;
    svg.querySelector(".cursor").setAttribute("hidden", "hidden");
  };

  for (const svg of document.querySelectorAll("svg.plot")) {
    let plot = null;
    const moved = (event) => { plot ??= JSON.parse(svg.dataset.plot); point(svg, plot, event); };
    svg.addEventListener("pointermove", moved);
    svg.addEventListener("pointerdown", moved);
    svg.addEventListener("pointerleave", () => leave(svg));
  }

  // Without this script, and on paper, everything is open.
  const folds = [...document.querySelectorAll("details.fold")];
  const foldAll = () => folds.forEach((part) => part.removeAttribute("open"));
  foldAll();
  window.addEventListener("beforeprint", () => folds.forEach((part) => part.setAttribute("open", "")));
  window.addEventListener("afterprint", foldAll);

  // A link to something folded away opens it.
  const unfold = () => {
    const target = location.hash && document.getElementById(location.hash.slice(1));
    if (target) { target.closest("details")?.setAttribute("open", ""); target.scrollIntoView(); }
  };
  window.addEventListener("hashchange", unfold);
  unfold();

  // A name in a legend fades the other lines while the pointer is on it.
  for (const item of document.querySelectorAll(".legend li[data-line]")) {
    const lines = item.closest("figure").querySelectorAll("svg.plot [data-line]");
    item.addEventListener("pointerenter", () =>
      lines.forEach((line) => line.classList.toggle("faded", line.dataset.line !== item.dataset.line)));
    item.addEventListener("pointerleave", () => lines.forEach((line) => line.classList.remove("faded")));
  }

  const factor = (ratio) => Number.isFinite(ratio)
    ? "\u00d7 " + ratio.toFixed(ratio < 9.995 ? 2 : ratio < 99.95 ? 1 : 0) : "\u2013";
  const measure = document.getElementById("measure");
  if (measure) {
    measure.closest(".chooser").hidden = false;
    const rows = [...document.querySelectorAll(".summary tbody tr")];
    const rounds = rows.map((line) => JSON.parse(line.dataset.rounds));
    // Of runs that were repeated, the geometric mean of the ratios of those with the same seed.
    const paired = (base, other) => {
      const logs = Object.keys(other).filter((seed) => seed in base).map((seed) => Math.log(other[seed] / base[seed]));
      return logs.length > 1 ? Math.exp(logs.reduce((sum, log) => sum + log) / logs.length) : null;
    };
    measure.addEventListener("change", () => rows.forEach((line, index) => {
      const [one, two] = [rows[measure.value], line].map((row) => Number(row.dataset.measure));
      const isKnown = Number.isFinite(one * two);
      const ratio = isKnown ? paired(rounds[measure.value], rounds[index]) ?? two / one : undefined;
      line.querySelector(".ratio").textContent = factor(ratio);
    }));
  }

  const save = document.getElementById("save");
  save.hidden = false;
  save.addEventListener("click", () => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([document.getElementById("data").textContent], { type: "application/json" }));
    link.download = "kickcache-report.json";
    link.click();
    URL.revokeObjectURL(link.href);
  });
})();
