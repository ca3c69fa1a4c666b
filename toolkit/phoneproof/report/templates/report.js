"use strict";
/* Everything is in the page without this script; it adds sorting and filtering. */

/* A button in each head cell sorts the rows by data-v, or by text. Cells without a value come last. */
for (const table of document.querySelectorAll("table[data-sortable]")) {
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells];
  const value = (row, column) => {
    const cell = row.cells[column];
    return "v" in cell.dataset ? cell.dataset.v : cell.textContent.trim();
  };
  const compare = (a, b) => {
    if (a === "" || b === "") return (a === "") - (b === "");
    const difference = Number(a) - Number(b);
    return Number.isNaN(difference) ? a.localeCompare(b) : difference;
  };
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const descending = head.getAttribute("aria-sort") === "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", descending ? "descending" : "ascending");
      const rows = [...body.rows].map((row) => [value(row, column), row]);
      rows.sort(([a], [b]) => {
        if (a === "" || b === "") return compare(a, b);
        return descending ? compare(b, a) : compare(a, b);
      });
      body.append(...rows.map(([, row]) => row));
    });
  });
}

/* One filter for all tables: words that a row must hold, and keys of which it must have one of each group. */
const form = document.getElementById("filter");
const tables = [...document.querySelectorAll("table[data-filtered]")].map((table) => {
  const shown = document.createElement("span");
  shown.className = "count";
  table.caption.append(shown);
  const rows = [...table.tBodies[0].rows].map((row) => ({
    row, keys: new Set((row.dataset.keys || "").split(" ")), text: null, hidden: false,
  }));
  return { shown, rows };
});
const total = tables.reduce((sum, { rows }) => sum + rows.length, 0);
const textOf = (one) => {
  if (one.text === null) {
    const named = one.row.querySelector("th bdi[title]");
    one.text = `${one.row.textContent} ${named ? named.title : ""}`.toLowerCase();
  }
  return one.text;
};
const apply = () => {
  const wanted = form.querySelector("input[type=search]").value.toLowerCase().split(/\s+/).filter(Boolean);
  const groups = [...form.querySelectorAll("fieldset")]
    .map((group) => [...group.querySelectorAll("input:checked")].map((input) => input.value))
    .filter((keys) => keys.length);
  const filtering = wanted.length > 0 || groups.length > 0;
  let left = 0;
  for (const { shown, rows } of tables) {
    let here = 0;
    for (const one of rows) {
      const kept = groups.every((keys) => keys.some((key) => one.keys.has(key)))
        && wanted.every((word) => textOf(one).includes(word));
      if (one.hidden === kept) { one.row.hidden = !kept; one.hidden = !kept; }
      here += kept;
    }
    left += here;
    shown.textContent = filtering ? ` ${here} of ${rows.length} rows shown.` : "";
  }
  form.querySelector("output").textContent = filtering ? `${left} of ${total} rows` : `${total} rows`;
  form.querySelector("button").hidden = !filtering;
};
if (total > 0) {
  form.hidden = false;
  form.addEventListener("input", apply);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", (event) => {
    event.preventDefault(); /* the browser would clear the form only after this, and the rows with a delay */
    form.querySelector("input[type=search]").value = "";
    for (const input of form.querySelectorAll("input:checked")) input.checked = false;
    apply();
  });
  apply();
}

/* On paper everything that is folded is shown. */
addEventListener("beforeprint", () => {
  for (const details of document.querySelectorAll("details")) details.open = true;
});
