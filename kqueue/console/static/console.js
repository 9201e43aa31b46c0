// What pages do beyond HTML: regions with data-refresh are renewed, forms with data-confirm ask first, tables with
// data-sort sort the rows of this page. Without this script all pages work.
"use strict";

(() => {
  const REFRESH_MIN_S = 2;

  // --- refresh

  let isLive = true;

  function isBusy(region) {
    const active = document.activeElement;
    const selection = document.getSelection();
    return (active !== null && active !== document.body && region.contains(active) && active.matches("input, select, textarea, button"))
      || (selection !== null && !selection.isCollapsed && region.contains(selection.anchorNode));
  }

  async function refresh(regions) {
    const response = await fetch(location.href, { headers: { "x-kqueue-refresh": "1" }, redirect: "error" });
    if (!response.ok) return;
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    for (const region of regions) {
      const renewed = page.getElementById(region.id);
      if (renewed === null || isBusy(region) || renewed.innerHTML === region.dataset.seen) continue;
      region.dataset.seen = renewed.innerHTML;
      const focused = region.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
      const open = new Set([...region.querySelectorAll("details[open][id]")].map((each) => each.id));
      const sorted = [...region.querySelectorAll("table")].map(sortOrder);
      region.replaceChildren(...document.importNode(renewed, true).childNodes);
      for (const each of region.querySelectorAll("details[id]")) if (open.has(each.id)) each.open = true;
      [...region.querySelectorAll("table")].forEach((table, index) => setUpTable(table, sorted[index]));
      if (focused !== null) region.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
    }
  }

  function setUpRefresh() {
    const regions = [...document.querySelectorAll("[data-refresh][id]")];
    if (regions.length === 0) return;
    const everySeconds = Math.max(REFRESH_MIN_S, ...regions.map((region) => Number(region.dataset.refresh) || REFRESH_MIN_S));
    const label = document.createElement("label");
    const box = document.createElement("input");
    label.className = "live";
    box.type = "checkbox";
    box.checked = isLive;
    box.addEventListener("change", () => { isLive = box.checked; });
    label.append(box, ` refresh every ${everySeconds} s`);
    document.querySelector(".heading .actions")?.prepend(label);
    let isRunning = false;
    setInterval(async () => {
      if (!isLive || isRunning || document.hidden) return;
      isRunning = true;
      try { await refresh(regions); } catch { /* the next one may succeed */ } finally { isRunning = false; }
    }, everySeconds * 1000);
  }

  // --- confirm

  document.addEventListener("submit", (event) => {
    const question = event.submitter?.dataset.confirm ?? event.target.dataset.confirm;
    if (question && !window.confirm(question)) event.preventDefault();
  });

  // --- sort

  function sortOrder(table) {
    const heads = [...table.querySelectorAll("thead th")];
    const column = heads.findIndex((head) => head.hasAttribute("aria-sort"));
    return column < 0 ? null : { column, order: heads[column].getAttribute("aria-sort") };
  }

  function sortValue(row, column) {
    const cell = row.cells[column];
    const text = (cell?.dataset.value ?? cell?.textContent ?? "").trim();
    const number = Number(text.replaceAll(",", ""));
    return text !== "" && !Number.isNaN(number) ? number : text.toLowerCase();
  }

  function sortBy(table, column, order) {
    const direction = order === "descending" ? -1 : 1;
    const compare = (a, b) => (typeof a === typeof b ? (a < b ? -1 : a > b ? 1 : 0) : typeof a === "number" ? -1 : 1);
    const rows = [...table.tBodies[0].rows].map((row) => [sortValue(row, column), row]);
    rows.sort((a, b) => direction * compare(a[0], b[0]));
    table.tBodies[0].append(...rows.map(([, row]) => row));
    [...table.querySelectorAll("thead th")].forEach((head, index) => {
      if (index === column) head.setAttribute("aria-sort", order); else head.removeAttribute("aria-sort");
    });
  }

  function setUpTable(table, sorted) {
    if (!table.hasAttribute("data-sort") || table.tHead === null) return;
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      if (head.textContent.trim() === "") return;
      const button = document.createElement("button");
      button.type = "button";
      button.className = "sort";
      button.append(...head.childNodes);
      button.addEventListener("click", () => {
        sortBy(table, column, head.getAttribute("aria-sort") === "ascending" ? "descending" : "ascending");
      });
      head.append(button);
    });
    if (sorted) sortBy(table, sorted.column, sorted.order);
  }

  document.querySelectorAll("table[data-sort]").forEach((table) => setUpTable(table, null));
  setUpRefresh();
})();
