// What pages do in the browser: streams, filters as you type, refreshing, keys, copying. Pages work without it, except streams.
// It must put no text of a record into the page itself: rows come as HTML that the server has escaped.
"use strict";

const ROWS_MAX = 400;
const $ = (selector, root = document) => root.querySelector(selector);
const number = (value) => Number(value).toLocaleString("en-US");

function nodes(html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  return template.content;
}

// -- searches and live views

function stream(box) {
  const isLive = box.dataset.stream.includes("/live");
  const bar = $("progress", box), said = $("#said", box), body = $("#records", box), stop = $("#stop", box);
  const source = new EventSource(box.dataset.stream);
  let last = {};
  const end = (text) => { source.close(); stop.hidden = true; bar.hidden = true; said.textContent = text; download(body); };
  const counts = (of) => `${number(of.matches)} found in ${number(of.read)}${of.total ? " of " + number(of.total) : ""} records`;
  source.addEventListener("progress", (event) => {
    last = JSON.parse(event.data);
    bar.value = last.total ? last.read / last.total : 0;
    said.textContent = isLive
      ? `Live: ${number(last.matches)} shown or passed of ${number(last.read)} that arrived${last.left_out ? `; too many to show all, ${number(last.left_out)} left out` : ""}`
      : `${counts(last)}, ${last.seconds} s`;
  });
  source.addEventListener("rows", (event) => {
    const rows = nodes(event.data);
    for (const row of rows.querySelectorAll("tr")) row.classList.add("new");
    if (isLive) body.prepend(rows); else body.append(rows);
    while (body.rows.length > ROWS_MAX) body.deleteRow(isLive ? -1 : 0);
  });
  source.addEventListener("final", (event) => body.replaceChildren(nodes(event.data)));
  source.addEventListener("done", (event) => {
    const of = JSON.parse(event.data);
    end(`${counts(of)}, in ${of.seconds} s${of.matches > of.kept ? `; the newest ${of.kept} are shown` : ""}.`);
  });
  for (const name of ["failed", "ended"]) source.addEventListener(name, (event) => end(JSON.parse(event.data).error));
  source.onerror = () => end("The connection to the console was lost: load the page again.");
  stop.addEventListener("click", () => end(isLive ? "Stopped." : `Stopped: ${last.total ? counts(last) : ""}`));
}

function download(body) {
  const at = [...body.rows].map((row) => row.dataset.at).slice(0, 200).join(",");
  for (const link of document.querySelectorAll("[data-base]")) {
    link.hidden = !at;
    link.href = `${link.dataset.base}&at=${encodeURIComponent(at)}`;
  }
}

// -- pages that change

async function replaced(url, ids, why = "again") {
  const answer = await fetch(url, { headers: { "x-part": why } }).catch(() => null);
  const page = answer && new DOMParser().parseFromString(await answer.text(), "text/html");
  const alert = page && $("[role=alert]", page);
  stale(answer && answer.ok ? "" : alert ? alert.textContent : "the console does not answer");
  if (!answer || !answer.ok) return;
  for (const id of ids) {
    const old = document.getElementById(id), now = page.getElementById(id);
    if (!old || !now) continue;
    old.replaceChildren(...now.childNodes);
    if (now.dataset.again) again(old, url, why === "typed" ? 250 : 1000);
  }
}

function stale(why) {
  let box = $("#stale");
  if (!box) {
    box = document.createElement("p");
    box.id = "stale";
    box.className = "box bad";
    box.setAttribute("role", "status");
    $("#content").prepend(box);
  }
  box.hidden = !why;
  box.textContent = `This page is not current: ${why}`;
}

// What came without some of its numbers is asked for again, unless the reader looks at something else by then.
function again(element, url, ms) {
  setTimeout(() => { if (url === location.pathname + location.search) replaced(url, [element.id]).catch(() => {}); }, ms);
}

function refresh(element, seconds) {
  const isBusy = () => document.hidden || (document.activeElement && document.activeElement !== document.body && element.contains(document.activeElement) && document.activeElement !== element) || String(getSelection());
  setInterval(() => { if (!isBusy()) replaced(location.href, [element.id]).catch(() => {}); }, seconds * 1000);
}

function filterAsTyped(form) {
  let timer = 0, asked = 0;
  form.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(async () => {
      const query = new URLSearchParams([...new FormData(form)].filter(([, value]) => value));
      const mine = ++asked, url = `${location.pathname}?${query}`;
      history.replaceState(null, "", url);
      if (mine === asked) await replaced(url, ["results"], "typed").catch(() => {});
    }, 120);
  });
}

// Fields that belong to one choice, such as the offset of "from an offset", are shown with it.
function dependents(form) {
  const select = $("select[name=from], select[name=to]", form);
  if (!select || !$("[data-for]", form)) return;
  const show = () => form.querySelectorAll("[data-for]").forEach((label) => { label.hidden = label.dataset.for !== select.value; });
  select.addEventListener("change", show);
  show();
  // Addresses stay short: what is empty is not sent.
  addEventListener("pageshow", () => form.querySelectorAll("input, select").forEach((field) => { field.disabled = false; }));
  form.addEventListener("submit", () => form.querySelectorAll("input, select").forEach((field) => { if (!field.value || field.closest("[hidden]")) field.disabled = true; }));
}

// -- keys and copying

function keys() {
  let before = "";
  document.addEventListener("keydown", (event) => {
    const target = event.target;
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && target.dataset && "submit" in target.dataset) return target.form.requestSubmit();
    if (event.key === "Escape" && target.blur && target !== document.body) return target.blur();
    if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName)) return;
    const rows = [...document.querySelectorAll("table.rows tbody tr")], here = rows.findIndex((row) => row.classList.contains("here"));
    if (before === "g") {
      const to = [...document.querySelectorAll("[data-go]")].find((link) => link.dataset.go === event.key);
      before = "";
      if (to) { location.href = to.href; return; }
    }
    before = event.key === "g" ? "g" : "";
    if (event.key === "/") { const field = $("[data-search]"); if (field) { event.preventDefault(); field.focus(); } }
    if (event.key === "j" || event.key === "k") {
      const next = rows[Math.min(Math.max(here + (event.key === "j" ? 1 : -1), 0), rows.length - 1)];
      if (here >= 0) rows[here].classList.remove("here");
      if (next) { next.classList.add("here"); next.scrollIntoView({ block: "nearest" }); }
    }
    if (event.key === "Enter" && here >= 0 && target === document.body) { const link = $("a[href]", rows[here]); if (link) location.href = link.href; }
  });
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
}

document.querySelectorAll("[data-stream]").forEach(stream);
document.querySelectorAll("[data-refresh]").forEach((element) => refresh(element, Number(element.dataset.refresh)));
document.querySelectorAll("[data-refresh-part]").forEach((element) => refresh(element, Number(element.dataset.refreshPart)));
document.querySelectorAll("[data-again]").forEach((element) => again(element, location.pathname + location.search, 1000));
document.querySelectorAll("[data-live-filter]").forEach(filterAsTyped);
document.querySelectorAll("form").forEach(dependents);
keys();
