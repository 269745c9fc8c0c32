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

  // Hides those of `items` that lack a word of the text field or have other values than those chosen.
  const sifted = (items, text, selects, shown) => {
    const said = new Map(items.map((item) => [item, `${item.textContent.toLowerCase()} ${item.id}`]));
    const has = (values, value) => values === value || values.split(" ").includes(value);
    const sift = () => {
      const words = text.value.toLowerCase().split(/\s+/).filter(Boolean);
      let count = 0;
      for (const item of items) {
        const chosen = selects.every((s) => !s.value || has(item.dataset[s.dataset.key], s.value));
        item.hidden = !(chosen && words.every((word) => said.get(item).includes(word)));
        count += !item.hidden;
      }
      shown(count, count === items.length ? `${count}` : `${count} of ${items.length}`);
    };
    text.addEventListener("input", sift);
    selects.forEach((s) => s.addEventListener("change", sift));
    sift();
    return sift;
  };

  const cases = [...document.querySelectorAll("#case-table tbody tr")];
  if (cases.length) {
    sifted(cases, document.getElementById("case-text"), [...document.querySelectorAll("#case-filters select")], (_, words) => {
      document.getElementById("cases-shown").textContent = words;
    });
  }

  const findings = [...document.querySelectorAll(".finding, .cause")];
  const text = document.getElementById("text");
  const selects = [...document.querySelectorAll("#filters select")];
  if (!findings.length) return;
  const visible = () => findings.filter((f) => !f.hidden);
  const sift = sifted(findings, text, selects, (count, words) => {
    document.getElementById("shown").textContent = words;
    document.getElementById("nothing").hidden = count > 0;
  });

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
        sift();
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
