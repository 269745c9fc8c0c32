"use strict";
(() => {
  const root = document.documentElement;
  const remembered = (name, value) => {
    try {
      if (value !== undefined) localStorage.setItem(name, value);
      return localStorage.getItem(name);
    } catch { return null; }  // storage may be off for files
  };
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const paint = () => { root.dataset.theme = remembered("fxmorph-theme") || (dark.matches ? "dark" : "light"); };
  paint();
  dark.addEventListener("change", paint);
  document.getElementById("theme").addEventListener("click", () => {
    const next = root.dataset.theme === "dark" ? "light" : "dark";
    remembered("fxmorph-theme", next);
    root.dataset.theme = next;
  });

  const copied = async (text) => {
    try { await navigator.clipboard.writeText(text); return true; } catch { /* no permission: the old way */ }
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  };
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("button.copy");
    if (!button) return;
    const text = button.dataset.copies ? button.parentElement.querySelector(button.dataset.copies).textContent : button.dataset.text;
    const done = await copied(text);
    button.textContent = done ? "copied" : "not allowed";
    button.classList.toggle("done", done);
    button.focus();
    setTimeout(() => { button.textContent = "copy"; button.classList.remove("done"); }, 1500);
  });

  document.addEventListener("click", (event) => {
    const button = event.target.closest("button.unfold");
    if (!button) return;
    const open = button.previousElementSibling.classList.toggle("unfolded");
    button.setAttribute("aria-expanded", String(open));
    button.textContent = open ? "show fewer" : `show all ${button.dataset.rows}`;
  });

  const rows = [...document.querySelectorAll("#case-table tbody tr")];
  if (rows.length) {
    const wanted = document.getElementById("case-text");
    const chosen = [...document.querySelectorAll("#case-filters select")];
    const said = rows.map((row) => row.textContent.toLowerCase());
    const sift = () => {
      const words = wanted.value.toLowerCase().split(/\s+/).filter(Boolean);
      let count = 0;
      rows.forEach((row, i) => {
        row.hidden = !(chosen.every((s) => !s.value || row.dataset[s.dataset.key] === s.value) && words.every((w) => said[i].includes(w)));
        count += !row.hidden;
      });
      document.getElementById("cases-shown").textContent = count === rows.length ? `${count}` : `${count} of ${rows.length}`;
    };
    wanted.addEventListener("input", sift);
    chosen.forEach((s) => s.addEventListener("change", sift));
    sift();
  }

  const findings = [...document.querySelectorAll(".finding, .cause")];
  const text = document.getElementById("text");
  const selects = [...document.querySelectorAll("#filters select")];
  if (!findings.length) return;
  const words = new Map(findings.map((f) => [f, f.textContent.toLowerCase() + " " + f.id]));
  const visible = () => findings.filter((f) => !f.hidden);
  const filter = () => {
    const wanted = text.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const finding of findings) {
      const chosen = selects.every((s) => !s.value || finding.dataset[s.dataset.key].split(" ").includes(s.value) || finding.dataset[s.dataset.key] === s.value);
      finding.hidden = !(chosen && wanted.every((w) => words.get(finding).includes(w)));
    }
    const count = visible().length;
    document.getElementById("shown").textContent = count === findings.length ? `${count}` : `${count} of ${findings.length}`;
    document.getElementById("nothing").hidden = count > 0;
  };
  text.addEventListener("input", filter);
  selects.forEach((s) => s.addEventListener("change", filter));
  filter();

  const here = () => document.activeElement.closest?.(".finding, .cause");
  const move = (by) => {
    const list = visible();
    const at = list.indexOf(here());
    const next = list[at < 0 ? (by > 0 ? 0 : list.length - 1) : Math.min(Math.max(at + by, 0), list.length - 1)];
    next?.querySelector("summary, a").focus();
    next?.scrollIntoView({ block: "nearest" });
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName);
    if (event.key === "Escape") {
      const open = here();
      if (open?.open) {
        open.open = false;
        open.querySelector("summary").focus();
      } else {
        text.value = "";
        selects.forEach((s) => { s.value = ""; });
        filter();
        document.activeElement.blur();
      }
    } else if (event.key === "Enter" && document.activeElement === text) {
      move(1);
    } else if (!typing && event.key === "/") {
      event.preventDefault();
      text.focus();
      text.select();
    } else if (!typing && (event.key === "j" || event.key === "k")) {
      move(event.key === "j" ? 1 : -1);
    }
  });
  const follow = () => {
    const named = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (named && named.matches(".finding")) {
      named.open = true;
      named.scrollIntoView();
    }
  };
  addEventListener("hashchange", follow);
  follow();
})();
