"use strict";
// Draws the lists and charts of a report from its data. Values are written as text, never as markup.
// `holdstrue serve` draws the same page again when there is a new version, so that drawing twice is drawing once.
const holdstrue = (() => {
  const FIRST = 20, MORE = 200;
  const many = new Intl.NumberFormat("en-US");
  const shownOf = new Map(); // how many entries of a list people asked for, so that a new version shows as many
  let drawnRules = [];

  // what steers text or cannot be seen is written out, so that a value cannot pass for another
  const hidden = /(?![\n\t])[\p{Cc}\p{Cf}\u2028\u2029]/gu;
  const visible = (text) => String(text).replace(hidden, (mark) => `\\u${mark.codePointAt(0).toString(16).padStart(4, "0")}`);
  const make = (tag, options = {}, ...children) => {
    const { text, ...attributes } = options;
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) if (value !== undefined) node.setAttribute(name, value);
    if (text !== undefined) node.textContent = visible(text);
    node.append(...children);
    return node;
  };
  const drawn = (tag, attributes = {}, text) => {
    const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    if (text !== undefined) node.textContent = visible(text);
    return node;
  };
  const section = (id, title) => make("section", { id, "aria-label": title }, make("h2", { text: title }));
  // a name may come with its class
  const heads = (names) => make("thead", {}, make("tr", {}, ...names.map((name) =>
    Array.isArray(name) ? make("th", { text: name[0], class: name[1] }) : make("th", { text: name }))));
  const value = (text, tag = "span", kind = "value") =>
    text === null ? make(tag, { class: `${kind} null`, text: "NULL" }) : make(tag, { class: kind, text });
  const plural = (count, word) => `${many.format(count)} ${word}${count === 1 ? "" : /(s|x|ch|sh)$/.test(word) ? "es" : "s"}`;

  // --- over time ---------------------------------------------------------------------------
  const line = (points, width, top, bottom, most) => points
    .map((count, at) => {
      const x = points.length === 1 ? width : (at * width) / (points.length - 1);
      return `${at ? "L" : "M"}${x.toFixed(1)} ${(bottom - ((bottom - top) * count) / (most || 1)).toFixed(1)}`;
    }).join(" ");
  const spark = (points) => {
    const svg = drawn("svg", { viewBox: "0 0 120 24", preserveAspectRatio: "none", height: "24", role: "img" });
    svg.append(drawn("title", {}, `open: ${points.map((n) => many.format(n)).slice(-12).join(", ")}`));
    svg.append(drawn("path", { class: "open", d: line(points, 120, 1, 23, Math.max(...points)) }));
    return svg;
  };
  // drawn as wide as it is shown, so that its words have the size of other words, on a phone too
  const bars = (history, width) => {
    const names = Object.keys(history.rules), count = history.names.length;
    const sum = (what) => history.names.map((_, at) => names.reduce((all, rule) => all + history.rules[rule][what][at], 0));
    const [added, removed, open] = ["added", "removed", "open"].map(sum);
    const svg = drawn("svg", { viewBox: `0 0 ${width} 236`, height: "236", role: "img", "aria-label": "violations by batch" });
    const most = Math.max(1, ...added, ...removed), highest = Math.max(1, ...open), wide = width / count, zero = 162;
    svg.append(drawn("line", { class: "axis", x1: 0, x2: width, y1: zero, y2: zero }));
    for (let at = 0; at < count; at++) {
      const bar = Math.max(0.5, Math.min(24, wide * 0.7)), x = at * wide + (wide - bar) / 2;
      const up = (56 * added[at]) / most, down = (52 * removed[at]) / most;
      const group = drawn("g");
      group.append(drawn("title", {}, `${history.names[at]}  ${history.times[at]}\n+${many.format(added[at])}  ` +
        `-${many.format(removed[at])}  open ${many.format(open[at])}`));
      group.append(drawn("rect", { x: at * wide, width: wide, y: 0, height: 236, fill: "transparent" }));
      group.append(drawn("rect", { class: "added", x, width: bar, y: zero - up, height: up }));
      group.append(drawn("rect", { class: "removed", x, width: bar, y: zero, height: down }));
      svg.append(group);
    }
    svg.append(drawn("path", { class: "open", d: line(open, width, 20, 96, highest) }));
    svg.append(drawn("text", { x: 0, y: 13 }, `open, up to ${many.format(highest)}`));
    svg.append(drawn("text", { x: 0, y: 232 }, `new and resolved, up to ${many.format(most)}`));
    return svg;
  };
  const chart = (history, parts) => {
    const node = section("over-time", "Over time");
    parts.append(node);
    node.append(make("div", { class: "legend" },
      ...[["added", "new"], ["removed", "resolved"], ["open", "open"]].map(([kind, word]) =>
        make("span", {}, make("i", { class: kind }), word)),
      make("span", { text: plural(history.batches, "batch") + (history.each > 1 ? `, ${history.each} to a bar` : "") })));
    const place = make("div", { class: "chart" });
    node.append(place);
    const redraw = () => {
      const width = Math.max(240, Math.round(place.clientWidth));
      if (place.dataset.width !== String(width)) {
        place.dataset.width = width;
        place.replaceChildren(bars(history, width));
      }
    };
    redraw();
    new ResizeObserver(redraw).observe(place);
  };

  // --- lists -------------------------------------------------------------------------------
  const pairRows = (entry, names, keyed) => entry.rows.map((row, at) => {
    const kind = entry.rows.length === 2 ? (at ? "second" : "first") : "";
    const line = make("tr", { class: kind });
    if (entry.rows.length === 2) {
      const role = make("td", { class: "role", text: "ts"[at] });
      if (entry.likely === at) role.append(make("span", { class: "likely-word", text: " likely wrong" }));
      line.append(role);
    }
    if (!keyed) line.append(value(entry.names[at], "td", "cell"));
    for (const name of names) {
      const text = row[name] === undefined ? "" : row[name];
      const cell = entry.marked.includes(name) ? make("td", { class: "cell" }, value(text, "span", "marked")) : value(text, "td", "cell");
      line.append(cell);
    }
    return line;
  });
  // a table for violations of one row and one for pairs, each with a way to draw more entries into it
  const tables = (entries, keyed, into) => [1, 2].flatMap((length) => {
    const own = entries.filter((entry) => entry.rows.length === length);
    if (!own.length) return [];
    const names = [...new Set(own.flatMap((entry) => Object.keys(entry.rows[0])))];
    const body = make("tbody");
    into.append(make("div", { class: "wide" }, make("table", {},
      heads([...(length === 2 ? [""] : []), ...(keyed ? [] : ["row"]), ...names]), body)));
    const draw = (entry) => {
      const lines = pairRows(entry, names, keyed);
      body.append(...lines);
      return lines;
    };
    return [{ own, draw }];
  });
  const listed = (rule, into) => {
    for (const { own, draw } of tables(rule.listed, rule.keys.length > 0, into)) paged(rule.name, own, into, draw);
  };
  const grouped = (rule, into) => {
    const list = make("div");
    into.append(list);
    paged(rule.name, rule.listed, into, (group) => {
      const left = make("div", {}, ...Object.entries(group.values).flatMap(([name, text]) =>
        [make("span", { class: "faint", text: `${name} ` }), value(text), " "]),
      make("span", { class: "faint", text: plural(group.rows, "row") }));
      const sides = group.sides.map((side) => {
        const words = Object.entries(side.values).flatMap(([name, text]) =>
          [make("span", { class: "faint", text: name }), value(text)]);
        const keys = side.keys.join(", ") + (side.rows > side.keys.length ? ", …" : "");
        const node = make("div", { class: side.likely ? "side likely" : "side" }, ...words,
          make("span", { class: "faint", text: `${plural(side.rows, "row")}: ${keys}` }));
        if (side.likely) node.append(make("span", { class: "likely-word", text: "likely wrong: fewer rows say so" }));
        return node;
      });
      const more = group.more ? [make("div", { class: "side faint", text: `… ${many.format(group.more)} more` })] : [];
      list.append(make("div", { class: "group" }, left, ...sides, ...more));
    });
  };
  const paged = (name, entries, into, draw) => {
    let at = 0;
    const button = make("button", { type: "button" });
    const cut = make("p", { class: "faint printed" });
    const next = (count) => {
      for (const end = Math.min(entries.length, at + count); at < end; at++) draw(entries[at]);
      button.textContent = `show ${many.format(Math.min(MORE, entries.length - at))} more`;
      cut.textContent = `${many.format(entries.length - at)} more are in the page and not printed`;
      if (at >= entries.length) { button.remove(); cut.remove(); }
    };
    into.append(button, cut);
    button.addEventListener("click", () => {
      next(MORE);
      shownOf.set(name, at);
    });
    next(shownOf.get(name) || FIRST);
  };

  // --- parts -------------------------------------------------------------------------------
  const ruleParts = (data, parts) => data.rules.map((rule, at) => {
    const row = document.querySelector(`tr[data-rule="${at}"]`);
    const past = data.history && data.history.rules[rule.name];
    if (past) row.querySelector(".spark").replaceChildren(spark(past.open));
    if (!rule.new) return { rule, row };
    const node = section(`rule-${at}`, rule.name);
    parts.append(node);
    if (rule.name !== rule.text) node.append(make("p", { class: "text", text: rule.text }));
    if (rule.denial) node.append(make("p", { class: "faint", text: "a denial constraint lists what must never hold together" }));
    if (rule.measured) node.append(make("p", { text: rule.measured }));
    else node.append(make("p", { class: "faint", text: `${plural(rule.open, "violation")}, ${plural(rule.rows, "row")} of ${rule.table}` +
      (rule.groups ? `, ${plural(rule.groups, "group")}` : "") +
      (rule.accepted ? `, ${many.format(rule.accepted)} accepted and not listed` : "") }));
    if (rule.listed.some((entry) => entry.likely === 0 || entry.likely === 1)) {
      node.append(make("p", { class: "faint", text: "likely wrong: the row of a pair that breaks this rule with many more rows than the other does" }));
    }
    (rule.list === "groups" ? grouped : listed)(rule, node);
    const left = rule.of_list === null ? 0 : rule.of_list - rule.listed.length;
    if (left > 0) node.append(make("p", { class: "faint", text: `${many.format(left)} more are counted and not listed here` }));
    return { rule, row, node };
  });
  const counted = (title, id, names, rows, parts, about) => {
    if (!rows.length) return;
    const most = Math.max(...rows.map((row) => row[1]));
    const body = make("tbody", {}, ...rows.map(([name, count, words]) => {
      const bar = make("span", { class: "bar" });
      bar.style.width = `${(9 * count / most).toFixed(2)}rem`;
      return make("tr", {}, value(name, "td", "cell"), make("td", { class: "number", text: many.format(count) }),
        make("td", { class: "bars" }, bar), make("td", { class: "faint", text: words }));
    }));
    const node = section(id, title);
    if (about) node.append(make("p", { class: "faint", text: about }));
    node.append(make("div", { class: "wide" }, make("table", { class: "counted" }, heads(names), body)));
    parts.append(node);
  };
  const table = (title, id, names, rows, parts, about) => {
    const node = section(id, title);
    if (about) node.append(make("p", { class: "faint", text: about }));
    if (rows.length) {
      node.append(make("div", { class: "wide" }, make("table", {}, heads(names), make("tbody", {},
        ...rows.map((row) => make("tr", {}, ...row.map((text) =>
          typeof text === "number" ? make("td", { class: "number", text: many.format(text) })
            : Array.isArray(text) ? make("td", {}, make("div", { class: "value plain", text: text[0] }), make("div", { class: "faint", text: text[1] }))
              : value(text, "td", "cell"))))))));
    }
    parts.append(node);
  };
  const upTo = (shown, all) => shown < all ? `the first ${many.format(shown)} of ${many.format(all)}` : "";
  const discovered = (found, parts) => {
    table("Nearly true: likely errors", "near", ["rule", ["exceptions", "number"], "by"],
      found.near.map((miss) => [[miss.rule, miss.words], miss.violations, miss.by.join(", ")]), parts,
      [upTo(found.near.length, found.of_near), ...found.unlooked].filter(Boolean).join("; ") || (found.of_near ? "" : "none"));
    table("Discovered rules", "discovered", [["score", "number"], "kind", "rule"],
      found.rules.map((rule) => [rule.score, rule.kind, [rule.rule, rule.words]]), parts,
      [upTo(found.rules.length, found.of_rules), found.complete ? "" : "the search was stopped before its end"].filter(Boolean).join("; "));
    if (found.ended.length) {
      table("Rules that died", "ended", ["batch", "rule", "why", "by"],
        found.ended.map((one) => [one.batch, one.rule, one.why, one.by.join(", ")]), parts, "the last ones, newest first");
    }
    if (found.turnover.length) {
      table("Rules that died and were born, by batch", "turnover", ["batch", ["died", "number"], ["born", "number"], ["rules", "number"]],
        found.turnover.map((line) => [line.batch, line.died, line.born, line.rules]), parts);
    }
  };
  const byRule = (counts) => Object.entries(counts).map(([name, count]) => `${name} ${many.format(count)}`).join(", ");

  const draw = (data) => {
    const parts = document.getElementById("parts");
    parts.replaceChildren();
    const several = Object.keys(data.tables).length > 1;
    if (data.history) chart(data.history, parts);
    drawnRules = ruleParts(data, parts);
    counted("Where in the columns", "columns", ["column", ["rows", "number"], ["", "bars"], "by rule"],
      data.columns.map((one) => [several ? `${one.table}.${one.column}` : one.column, one.rows, byRule(one.by_rule)]), parts);
    counted("Worst rows", "worst", ["row", ["violations", "number"], ["", "bars"], "by rule"],
      data.worst.map((one) => [several ? `${one.table} ${one.key}` : one.key, one.total, byRule(one.by_rule)]), parts);
    if (data.suspects) {
      table("Suspects: cells that are probably wrong", "suspects", ["row", "column", "value", "should be", ["sure", "number"], "why"],
        data.suspects.cells.map((one) => [several ? `${one.table} ${one.row}` : one.row, one.column, one.value, one.proposed === null ? "not known" : one.proposed, one.confidence, one.why.join("; ")]), parts,
        [upTo(data.suspects.cells.length, data.suspects.of), data.suspects.of ? "" : "none", ...data.suspects.notes].filter(Boolean).join("; "));
    }
    if (data.accepted.length) {
      table("Accepted", "accepted", ["rule", ["violations", "number"], "until", "reason"], data.accepted.map((entry) =>
        [entry.rule, entry.violations, entry.until || "", entry.reason + (entry.changed ? " (the rule says something else now: they count again)"
          : entry.expired ? " (expired: they count again)" : "")]), parts);
    }
    if (data.discovered) discovered(data.discovered, parts);
    if (data.plan.length) {
      const all = data.memory.reduce((sum, part) => sum + part.bytes, 0);
      const node = make("details", {}, make("summary", { text: "Plan: how the rules are checked, and what it costs" }),
        make("pre", { text: data.plan.join("\n") }));
      counted("Memory", "memory", ["held for", ["KiB", "number"], ["", "bars"], "share"],
        data.memory.filter((part) => part.bytes).map((part) =>
          [part.what, Math.ceil(part.bytes / 1024), `${(100 * part.bytes / all).toPrecision(2)} %`]), node, `${many.format(Math.ceil(all / 1024))} KiB in all; a batch reads and changes these, not the table`);
      parts.append(make("section", { id: "plan" }, node));
    }
    tools(data);
    document.documentElement.dataset.ready = data.version === undefined ? "yes" : String(data.version);
  };

  // --- looking for something -----------------------------------------------------------------
  const box = make("input", { type: "search", placeholder: "find a rule ( / )", "aria-label": "find a rule" });
  const kinds = make("select", { "aria-label": "status" },
    ...["all", "violated", "accepted", "tolerated", "ok"].map((text) => make("option", { text })));
  const grades = make("select", { "aria-label": "severity" },
    ...["any severity", "error", "warn"].map((text, at) => make("option", { text, value: at ? text : "" })));
  const filter = () => {
    const words = box.value.toLowerCase(), kind = kinds.value;
    for (const { rule, row, node } of drawnRules) {
      const fits = (kind === "all" || rule.status === kind) && (!grades.value || rule.severity === grades.value) && `${rule.name} ${rule.text}`.toLowerCase().includes(words);
      row.classList.toggle("hidden", !fits);
      if (node) node.classList.toggle("hidden", !fits);
    }
  };
  const tools = (data) => {
    if (data.rules.length > 3) document.getElementById("tools").replaceChildren(box, kinds,
      ...(new Set(data.rules.map((rule) => rule.severity)).size > 1 ? [grades] : []));
    filter();
  };
  box.addEventListener("input", filter);
  kinds.addEventListener("change", filter);
  grades.addEventListener("change", filter);
  // --- keys ----------------------------------------------------------------------------------
  const KEYS = [["/", "find a rule"], ["j", "next part"], ["k", "part before"], ["?", "these keys"], ["Esc", "leave"]];
  const help = make("dialog", { id: "keys", "aria-label": "keys" }, make("h2", { text: "Keys" }),
    make("dl", { class: "values" }, ...KEYS.flatMap(([key, words]) => [make("dt", { text: key }), make("dd", { text: words })])),
    make("form", { method: "dialog" }, make("button", { text: "close" })));
  document.body.append(help);
  const step = (way) => {
    const all = [...document.querySelectorAll("section")].filter((node) => node.getClientRects().length && !node.closest("details:not([open])"));
    const at = all.findIndex((node) => node === document.activeElement || node.contains(document.activeElement));
    const node = all[Math.max(0, Math.min(all.length - 1, at < 0 ? 0 : at + way))];
    if (!node) return;
    node.tabIndex = -1;
    node.focus({ preventScroll: true });
    node.scrollIntoView({ block: "start" });
  };
  document.addEventListener("keydown", (event) => {
    const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement.tagName);
    if (event.key === "/" && !typing && box.isConnected) { event.preventDefault(); box.focus(); }
    if (!typing && !event.ctrlKey && !event.metaKey && !event.altKey && !help.open) {
      if (event.key === "j" || event.key === "k") { event.preventDefault(); step(event.key === "j" ? 1 : -1); }
      if (event.key === "?") { event.preventDefault(); help.showModal(); }
    }
    if (event.key === "Escape" && document.activeElement === box) { box.value = ""; filter(); box.blur(); }
  });
  // what is folded on the screen is unfolded on paper
  let folded = [];
  window.addEventListener("beforeprint", () => {
    folded = [...document.querySelectorAll("main details:not([open])")];
    for (const node of folded) node.open = true;
  });
  window.addEventListener("afterprint", () => { for (const node of folded) node.open = false; });
  return { draw, make, heads, value, plural, many, section, tables, counted, byRule };
})();
{
  const data = document.getElementById("data");
  if (data) holdstrue.draw(JSON.parse(data.textContent));
}
