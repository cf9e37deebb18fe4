"use strict";
(() => {
  const body = document.querySelector("#cases tbody");
  if (!body) return;
  const rows = [...body.rows];
  const heads = [...document.querySelectorAll("#cases th[data-key]")];
  const order = document.getElementById("order");
  const text = document.getElementById("text");
  const variant = document.getElementById("variant");
  const state = document.getElementById("state");
  const count = document.getElementById("count");

  const compare = (key, numeric, sign) => (a, b) => {
    const [x, y] = [a.dataset[key], b.dataset[key]];
    if (!numeric) return sign * x.localeCompare(y, undefined, { numeric: true });
    // Rows without a number go last, whichever way the others run.
    if (x === "" || y === "") return (x === "") - (y === "");
    return sign * (Number(x) - Number(y));
  };

  const sort = (key, sign) => {
    const head = heads.find((item) => item.dataset.key === key);
    rows.sort(compare(key, "numeric" in head.dataset, sign));
    body.append(...rows);
    for (const item of heads) item.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
    const choice = `${key}:${sign}`;
    order.value = [...order.options].some((item) => item.value === choice) ? choice : "";
  };

  const filter = () => {
    const wanted = text.value.trim().toLowerCase();
    let shown = 0;
    for (const row of rows) {
      const fits =
        row.dataset.dataset.toLowerCase().includes(wanted) &&
        (variant.value === "" || row.dataset.variant === variant.value) &&
        (state.value === "" || row.dataset.state === state.value);
      row.hidden = !fits;
      shown += fits;
    }
    count.textContent = `${shown} of ${rows.length} rows`;
  };

  for (const head of heads) {
    head.querySelector("button").addEventListener("click", () => {
      const upward = head.getAttribute("aria-sort") === "ascending";
      sort(head.dataset.key, upward ? -1 : 1);
    });
  }
  order.addEventListener("change", () => {
    const [key, sign] = order.value.split(":");
    if (key) sort(key, Number(sign));
  });
  text.addEventListener("input", filter);
  variant.addEventListener("change", filter);
  state.addEventListener("change", filter);
  filter();
})();
