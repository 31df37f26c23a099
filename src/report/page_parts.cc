#include "report/page_parts.h"

namespace lshformer {

// The gradients shade the side of a table where more of it follows.
const char* PageStyle() {
  return R"(
* { box-sizing: border-box; }
html { scroll-padding-top: 12px; }
body { margin: 0; background: var(--paper); color: var(--ink); line-height: 1.5;
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; -webkit-text-size-adjust: 100%; }
main { max-width: 1040px; margin: 0 auto; padding: 32px 20px 64px; }
header { border-bottom: 3px solid var(--accent); margin-bottom: 24px; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 4px; overflow-wrap: anywhere; }
header p { color: var(--soft); margin: 0 0 14px; }
h2 { font-size: 1.2rem; margin: 36px 0 10px; overflow-wrap: anywhere; }
h3 { font-size: 1.02rem; margin: 24px 0 8px; overflow-wrap: anywhere; }
section { border-top: 1px solid var(--line); margin-top: 40px; }
section h2 { font-size: 1.35rem; margin-top: 24px; }
p { max-width: 72ch; margin: 10px 0; overflow-wrap: anywhere; }
a { color: var(--accent); }
nav { background: var(--panel); border: 1px solid var(--line); border-radius: 10px; padding: 12px 16px; margin: 16px 0; }
nav ol { margin: 6px 0 0; padding-left: 1.6em; columns: 2 320px; column-gap: 32px; }
nav li { break-inside: avoid; margin: 3px 0; overflow-wrap: anywhere; }
nav span { color: var(--soft); font-size: 0.88rem; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 190px), 1fr)); gap: 12px; margin: 16px 0; }
.card { background: var(--panel); border: 1px solid var(--line); border-radius: 10px; padding: 14px 16px; }
.card b { display: block; font-size: 1.5rem; line-height: 1.25; font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
.card span { color: var(--soft); font-size: 0.88rem; overflow-wrap: anywhere; }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 400px), 1fr)); gap: 16px; margin: 14px 0; align-items: start; }
.charts > figure { margin: 0; border: 1px solid var(--line); border-radius: 10px; padding: 10px; min-width: 0; max-width: 640px; }
figcaption { font-size: 0.88rem; color: var(--soft); }
figcaption p { margin: 6px 0; color: var(--ink); }
figcaption pre { margin: 6px 0; font-size: 0.78rem; padding: 8px 10px; color: var(--ink); max-height: 12em; overflow-y: auto; }
.scroll { overflow-x: auto; margin: 14px 0; --shade: color-mix(in srgb, var(--ink) 35%, transparent); background:
  linear-gradient(to right, var(--paper) 40%, transparent) left / 48px 100% no-repeat local,
  linear-gradient(to left, var(--paper) 40%, transparent) right / 48px 100% no-repeat local,
  linear-gradient(to right, var(--shade), transparent) left / 14px 100% no-repeat scroll,
  linear-gradient(to left, var(--shade), transparent) right / 14px 100% no-repeat scroll; }
table { border-collapse: collapse; font-size: 0.94rem; font-variant-numeric: tabular-nums; }
th, td { padding: 5px 14px; text-align: right; vertical-align: top; border-bottom: 1px solid var(--line); white-space: nowrap; }
thead th { border-bottom: 2px solid var(--soft); vertical-align: bottom; }
th:first-child { text-align: left; font-weight: 400; padding-left: 4px; white-space: normal; min-width: 9rem; }
thead th, tr.section th { font-weight: 600; }
tr.section th { text-align: left; padding-top: 16px; color: var(--accent); }
td.best { font-weight: 700; }
td.words, th.words { text-align: left; white-space: normal; min-width: 11rem; }
thead button { all: unset; cursor: pointer; box-sizing: border-box; }
thead button::after { content: " \2195"; color: var(--soft); font-weight: 400; }
thead th[aria-sort=ascending] button::after { content: " \2191"; color: var(--accent); }
thead th[aria-sort=descending] button::after { content: " \2193"; color: var(--accent); }
:focus-visible, thead button:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
pre { background: var(--panel); border: 1px solid var(--line); border-radius: 8px; padding: 12px 14px; overflow-x: auto; white-space: pre-wrap; overflow-wrap: anywhere; font-size: 0.88rem; line-height: 1.6; }
summary { cursor: pointer; margin: 8px 0; }
.tip { position: fixed; z-index: 1; left: 0; top: 0; max-width: min(90vw, 28em); padding: 5px 9px; border-radius: 6px; pointer-events: none;
  background: var(--ink); color: var(--paper); font-size: 0.85rem; overflow-wrap: anywhere; }
.tip[hidden] { display: none; }
@media (max-width: 640px) {
  main { padding: 20px 12px 48px; }
  h1 { font-size: 1.4rem; }
  section h2 { font-size: 1.2rem; }
  .charts > figure { border-width: 1px 0 0; border-radius: 0; padding: 10px 0; }
  table { font-size: 0.8rem; }
  th, td { padding: 5px 6px; }
  th:first-child { min-width: 5rem; max-width: 9rem; padding-left: 0; overflow-wrap: anywhere; position: sticky; left: 0; background: var(--paper); }
  tr.section th:first-child { max-width: none; }
  thead th { white-space: normal; }
  td.words, th.words { min-width: 15rem; }
}
@media print { .charts > figure, .card { break-inside: avoid; } thead button::after { content: ""; } }
)";
}

// No "less than" and no ampersand, so that the page stays XML.
//
// Tables: a click on the head of a column sorts the lines of every section by it, first upwards, then downwards, then
// as they were. Columns whose cells begin with numbers sort by them; cells without one come last.
//
// Drawings: what has a <title> shows it beside the pointer, the nearest within reach of a finger too. The browser's own
// tooltip, which comes late and not at all on a phone, is taken away so that there are not two.
const char* PageScript() {
  return R"(
(function () {
  "use strict";
  function number(text) {
    const match = /^[^0-9a-zA-Z\u221e]*?([-\u2212+]?)([0-9]+(?:\.[0-9]+)?(?:e[-+]?[0-9]+)?|\u221e)/.exec(text.trim());
    if (!match) return NaN;
    const size = match[2] === "\u221e" ? Infinity : parseFloat(match[2]);
    return match[1] === "-" || match[1] === "\u2212" ? -size : size;
  }
  function sort(table, column, direction) {
    for (const body of table.tBodies) {
      const rows = Array.from(body.rows).filter(function (row) { return !row.classList.contains("section"); });
      rows.forEach(function (row, at) { if (!row.dataset.at) row.dataset.at = at; });
      const cell = function (row) { return row.cells[column].textContent.trim(); };
      const filled = rows.map(cell).filter(function (text) { return text !== "\u2013" ? text !== "" : false; });
      const numeric = filled.every(function (text) { return !isNaN(number(text)); });
      const last = function (row) { return numeric ? isNaN(number(cell(row))) : cell(row) === "\u2013" || cell(row) === ""; };
      rows.sort(function (a, b) {
        const before = a.dataset.at - b.dataset.at;
        if (direction === 0) return before;
        if (last(a) !== last(b)) return last(a) ? 1 : -1;
        if (last(a)) return before;
        const x = number(cell(a)), y = number(cell(b));
        const order = numeric ? (x === y ? 0 : x > y ? 1 : -1) : cell(a).localeCompare(cell(b));
        return order === 0 ? before : direction * order;
      });
      rows.forEach(function (row) { body.appendChild(row); });
    }
  }
  document.querySelectorAll("table").forEach(function (table) {
    const heads = Array.from(table.tHead.rows[0].cells);
    if (!Array.from(table.tBodies).some(function (body) { return body.rows.length > 2; })) return;
    heads.forEach(function (head, column) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent;
      if (head.textContent === "") button.setAttribute("aria-label", "name");
      head.textContent = "";
      head.appendChild(button);
      head.setAttribute("aria-sort", "none");
      button.addEventListener("click", function () {
        const was = head.getAttribute("aria-sort");
        const now = was === "none" ? "ascending" : was === "ascending" ? "descending" : "none";
        heads.forEach(function (other) { other.setAttribute("aria-sort", "none"); });
        head.setAttribute("aria-sort", now);
        sort(table, column, now === "ascending" ? 1 : now === "descending" ? -1 : 0);
      });
    });
  });
  function reachable() {
    document.querySelectorAll(".scroll").forEach(function (box) {
      if (box.scrollWidth > box.clientWidth) box.tabIndex = 0; else box.removeAttribute("tabindex");
    });
  }
  reachable();
  window.addEventListener("resize", reachable);
  document.addEventListener("toggle", reachable, true);

  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  tip.setAttribute("aria-hidden", "true");
  document.body.appendChild(tip);
  let shown = null;
  function hide() {
    if (shown) shown.classList.remove("on");
    shown = null;
    tip.hidden = true;
  }
  function show(mark, x, y) {
    if (mark !== shown) hide();
    shown = mark;
    mark.classList.add("on");
    tip.textContent = mark.dataset.tip;
    tip.hidden = false;
    const size = tip.getBoundingClientRect(), wide = document.documentElement.clientWidth;
    tip.style.left = Math.max(4, Math.min(x - size.width / 2, wide - size.width - 4)) + "px";
    tip.style.top = (y - size.height - 14 > 4 ? y - size.height - 14 : y + 20) + "px";
  }
  document.querySelectorAll("svg.chart").forEach(function (svg) {
    let marks = null;
    function prepare() {
      if (marks) return;
      marks = Array.from(svg.querySelectorAll("title")).map(function (title) {
        const mark = title.parentNode;
        mark.dataset.tip = title.textContent;
        title.remove();
        return mark;
      });
    }
    function move(event) {
      prepare();
      const reach = event.pointerType === "touch" ? 24 : 10;
      let best = null, least = reach;
      for (const mark of marks) {
        const box = mark.getBoundingClientRect();
        const dx = Math.max(box.left - event.clientX, 0, event.clientX - box.right);
        const dy = Math.max(box.top - event.clientY, 0, event.clientY - box.bottom);
        const away = Math.hypot(dx, dy);
        if (least >= away) {
          best = mark;
          least = away;
        }
      }
      if (best) show(best, event.clientX, event.clientY); else hide();
    }
    svg.addEventListener("pointermove", move);
    svg.addEventListener("pointerdown", move);
    svg.addEventListener("pointerleave", function (event) { if (event.pointerType !== "touch") hide(); });
  });
  document.addEventListener("scroll", hide, true);
  document.addEventListener("keydown", function (event) { if (event.key === "Escape") hide(); });
  document.addEventListener("pointerdown", function (event) { if (!event.target.closest("svg.chart")) hide(); });
})();
)";
}

}  // namespace lshformer
