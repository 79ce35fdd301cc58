"use strict";
// Keeps a page current without loading it again, and asks the server on behalf of people. Values are written as text.
(() => {
  const name = document.body.dataset.state;
  const pulse = document.getElementById("pulse");
  const say = (kind, text) => {
    pulse.className = kind;
    pulse.textContent = text;
  };

  // --- new versions ------------------------------------------------------------------------
  let busy = false, again = false;
  const refresh = async () => {
    if (busy) { again = true; return; }
    busy = true;
    try {
      const response = await fetch(location.href, { headers: { Accept: "text/html" } });
      if (!response.ok) throw new Error(String(response.status));
      // the same page, parsed without running it
      const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
      take(fresh);
    } catch {
      say("lost", "not reached, trying again");
    }
    busy = false;
    if (again) { again = false; refresh(); }
  };
  const take = (fresh) => {
    if (fresh.body.dataset.screen !== document.body.dataset.screen) { location.reload(); return; }
    const focused = document.activeElement;
    for (const id of ["head", "states", "screen", "banner", "rules", "data"]) {
      const [old, now] = [document.getElementById(id), fresh.getElementById(id)];
      if (old && now) old.replaceWith(document.adoptNode(now));
    }
    for (const part of ["standing", "version"]) {
      if (fresh.body.dataset[part] !== undefined) document.body.dataset[part] = fresh.body.dataset[part];
    }
    const data = document.getElementById("data");
    if (data) holdstrue.draw(JSON.parse(data.textContent));
    if (focused && focused.isConnected && focused !== document.activeElement) focused.focus();
    document.dispatchEvent(new Event("newversion"));
  };
  let events = null;
  const connect = () => {
    events = new EventSource("/api/events");
    events.onopen = () => say("live", "live");
    events.onerror = () => say("lost", "not reached, trying again");
    events.addEventListener("state", hear);
  };
  const hear = (event) => {
    const state = JSON.parse(event.data);
    if (!name) { refresh(); return; }
    if (state.name !== name) return;
    const version = state.version === null ? "" : String(state.version);
    if (version !== document.body.dataset.version || state.standing !== document.body.dataset.standing) refresh();
  };
  // browsers hold few connections to one place, so pages that nobody sees let theirs go; coming back tells what is new
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) events.close();
    else connect();
  });
  connect();
  // a discovery has no violations to ask for
  if (!name || !document.getElementById("data") || !document.getElementById("rules")) return;

  // --- asking ------------------------------------------------------------------------------
  const { make, heads, value, plural, many, tables, byRule } = holdstrue;
  const api = `/api/states/${encodeURIComponent(name)}`;
  const query = (given) => {
    const found = new URLSearchParams(Object.entries(given).filter(([, text]) => text !== "" && text !== undefined));
    return String(found) ? `?${found}` : "";
  };
  const ask = async (path, given = {}, body) => {
    const options = body === undefined ? {} :
      { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
    const response = await fetch(`${api}${path}${query(given)}`, options);
    const answer = await response.json();
    if (!response.ok) throw answer.error;
    return answer;
  };
  const panel = (id, title, ...fields) => {
    const form = make("form", {}, ...fields, make("button", { type: "submit", text: "ask" }));
    const answer = make("div", { class: "answer", "aria-live": "polite" });
    const node = make("details", { id, name: "ask" }, make("summary", { text: title }), form, answer);
    return { node, form, answer };
  };
  const field = (name, label, tag = "input", options = {}, ...children) =>
    make("label", { class: options.long ? "long" : undefined }, label,
      make(tag, { name, placeholder: options.hint, list: options.list, value: options.value, rows: options.rows }, ...children));
  const choice = (name, label, texts) =>
    field(name, label, "select", {}, ...texts.map(([text, shown]) => make("option", { value: text, text: shown })));
  const answering = ({ form, answer }, work) => {
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      answer.replaceChildren(make("p", { class: "faint", text: "looking …" }));
      try {
        const nodes = await work(Object.fromEntries(new FormData(form)));
        answer.replaceChildren(...nodes);
      } catch (error) {
        answer.replaceChildren(make("p", { class: "note", text: `${error.message}${error.hint ? ` (${error.hint})` : ""}` }));
      }
    });
  };
  const faint = (text) => make("p", { class: "faint", text });
  const table = (names, rows) => make("div", { class: "wide" }, make("table", {}, heads(names),
    make("tbody", {}, ...rows.map((cells) => make("tr", {}, ...cells.map((cell) =>
      cell instanceof Node ? cell : make("td", { text: cell })))))));
  const listed = (entries, into, of) => {
    const rules = new Map();
    for (const entry of entries) rules.set(entry.rule, [...(rules.get(entry.rule) || []), entry]);
    for (const [rule, own] of rules) {
      into.append(make("h3", { text: rule }));
      if (own.every((entry) => entry.rows && !entry.rows.length)) into.append(faint("broken by the table as a whole"));
      if (own.some((entry) => entry.accepted)) into.append(faint(`of these are accepted: ${many.format(own.filter((entry) => entry.accepted).length)}`));
      // a key of one column stands in its column, others in one of their own; either leads to its row
      const keyed = !own.some((entry) => Array.isArray(entry.t));
      for (const { own: some, draw } of tables(own, keyed, into)) {
        for (const entry of some) draw(entry).forEach((line, at) => {
          const cell = line.querySelector("td.cell");
          const button = make("button", { type: "button", class: "key", text: cell.textContent, title: "show this row" });
          button.addEventListener("click", () => showRow(keyText(at ? entry.s : entry.t, entry.names[at]), of || tableOf(entry.rule)));
          cell.replaceChildren(button);
        });
      }
    }
  };
  // as the server reads it; a number that JavaScript does not hold exactly is taken as it is shown
  const keyText = (key, shown) => Array.isArray(key) ? JSON.stringify(key)
    : typeof key === "number" && !Number.isSafeInteger(key) ? shown : String(key);
  const bare = (title, kind, found) => {
    if (!found.length) return [];
    const rules = new Map();
    for (const one of found) rules.set(one.rule, [...(rules.get(one.rule) || []), one]);
    const pair = (one) => [one.t, ...(one.s === undefined ? [] : [one.s])].map((key) => JSON.stringify(key)).join(" with ");
    return [make("h3", { text: title }), ...[...rules].map(([rule, own]) => make("p", {},
      make("span", { class: kind, text: `${rule}: ` }), value(own.map(pair).join(", "), "span", "plain")))];
  };

  // find violations
  const data = () => JSON.parse(document.getElementById("data").textContent);
  const rules = data().rules;
  const tableOf = (name) => (rules.find((rule) => rule.name === name) || {}).table;
  const kept = Object.keys(data().tables);
  const tableChoice = (label = "table") => kept.length > 1 ? [choice("table", label, kept.map((text) => [text, text]))] : [];
  const columns = [...new Set(rules.flatMap((rule) => rule.columns || []))].sort();
  const find = panel("find", "Find violations",
    choice("rule", "rule", [["", "all"], ...rules.map((rule) => [rule.name, rule.name])]),
    choice("severity", "severity", [["", "all"], ["error", "error"], ["warn", "warn"]]),
    choice("column", "column", [["", "all"], ...columns.map((text) => [text, text])]),
    field("key", "key of a row"),
    ...tableChoice("of the table"),
    field("at", "as of", "input", { hint: "now, 12, 2h ago" }),
    field("since", "new since", "input", { hint: "12, 2h ago" }));
  answering(find, async ({ table: of, ...asked }) => {
    const given = asked.key ? { ...asked, table: of } : asked;
    const out = make("div");
    let offset = 0;
    const more = make("button", { type: "button", text: "show more" });
    const next = async () => {
      const found = await ask("/violations", { ...given, offset });
      const part = make("div");
      listed(found.violations, part);
      offset += found.violations.length;
      more.classList.toggle("hidden", !found.truncated);
      out.append(part);
      count.textContent = `${plural(found.total, "violation")} of version ${found.version}, ${many.format(offset)} shown`;
    };
    const count = faint("");
    await next();
    more.addEventListener("click", next);
    const files = ["csv", "parquet", "json"].map((form) =>
      make("a", { href: `${api}/violations.${form}${query(given)}`, download: "", text: form }));
    return [count, out, make("div", { class: "tools" }, more, make("span", { class: "faint", text: "download" }), ...files)];
  });

  // one row
  const one = panel("row", "One row", ...tableChoice(), field("key", "key", "input", { hint: "7, or [\"a\", 1]" }));
  answering(one, async ({ key, table: of }) => {
    const out = make("div");
    const past = make("button", { type: "button", text: "its history" });
    past.addEventListener("click", () => tellPast(key, of, past));
    let found;
    try {
      found = await ask("/row", { key, table: of });
    } catch (error) {
      if (!String(error.message).startsWith("no row")) throw error;
      return [make("p", { class: "note", text: error.message }), past];
    }
    const values = make("dl", { class: "values" }, ...Object.entries(found.values).flatMap(([column, text]) =>
      [make("dt", { text: column }), make("dd", {}, value(text))]));
    const total = Object.values(found.by_rule).reduce((all, count) => all + count, 0);
    out.append(values, faint(total ? `${plural(total, "violation")}: ${byRule(found.by_rule)}` : "no violations"));
    listed(found.violations, out);
    if (found.truncated) out.append(faint("more are counted and not listed here"));
    out.append(past);
    return [out];
  });
  const tellPast = async (key, of, button) => {
    const place = faint("looking at earlier versions …");
    button.replaceWith(place);
    try {
      const told = await ask("/row/history", { key, table: of });
      const count = (by, kind, sign) => Object.entries(by).map(([rule, of]) => make("div", { class: kind, text: `${sign}${of} ${rule}` }));
      place.replaceWith(make("h3", { text: "History" }),
        table(["version", "batch", "row", "violations"], told.steps.map((step) => [String(step.version), step.batch || "",
          step.row + (step.columns.length ? `: ${step.columns.join(", ")}` : ""),
          make("td", {}, ...count(step.added, "plus", "+"), ...count(step.removed, "minus", "−"))])),
        faint(told.unknown || `nothing else since version ${told.looked_back_to}`));
    } catch (error) {
      place.replaceWith(make("p", { class: "note", text: error.message }));
    }
  };
  const showRow = (text, of) => {
    one.node.open = true;
    if (one.form.elements.table) one.form.elements.table.value = of;
    one.form.elements.key.value = text;
    one.form.requestSubmit();
    one.node.scrollIntoView({ block: "start" });
  };

  // two versions
  const known = make("datalist", { id: "versions" });
  const two = panel("compare", "Compare two versions",
    field("from", "from", "input", { hint: "12, 2h ago", list: "versions" }), field("to", "to", "input", { hint: "now", list: "versions" }), known);
  const fill = async () => {
    const { versions } = await ask("/versions");
    known.replaceChildren(...versions.map(({ version, time }) => make("option", { value: String(version), text: time || "" })));
  };
  two.node.addEventListener("toggle", () => { if (two.node.open) fill().catch(() => say("lost", "versions were not read")); });
  answering(two, async (given) => {
    const found = await ask("/compare", given);
    const signed = (count, sign) => count === null ? "too many to tell" : count ? `${sign}${many.format(count)}` : "";
    return [faint(`version ${found.from.version} to ${found.to.version}`),
      table(["rule", "before", "after", "new", "resolved"], found.rules.map((rule) => [rule.name,
        many.format(rule.before), many.format(rule.after), make("td", { class: "plus", text: signed(rule.added, "+") }),
        make("td", { class: "minus", text: signed(rule.removed, "−") })])),
      ...bare("New", "plus", found.added), ...bare("Resolved", "minus", found.removed),
      ...(found.truncated ? [faint("more are counted and not listed here")] : [])];
  });

  // trying
  const tried = panel("try-row", "Try a row, without applying it",
    choice("op", "what", [["upsert", "insert or update"], ["insert", "insert"], ["update", "update"], ["delete", "delete"]]),
    ...tableChoice(),
    field("row", "the row as JSON", "textarea", { long: true, rows: "3", hint: "{\"id\": 7, \"zip\": \"10001\"}" }));
  answering(tried, async ({ op, row, table: of }) => {
    let parsed;
    try { parsed = JSON.parse(row); } catch (error) { throw { message: `the row is no JSON: ${error.message}` }; }
    const found = await ask("/try/row", {}, of ? { op, row: parsed, table: of } : { op, row: parsed });
    const steps = Object.entries(found.counts).filter(([, step]) => step.added || step.removed);
    return [faint(steps.length ? "this would happen:" : "nothing would change"),
      ...(steps.length ? [table(["rule", "new", "resolved", "open then"], steps.map(([rule, step]) => [rule,
        `+${many.format(step.added)}`, `−${many.format(step.removed)}`, many.format(step.open)]))] : []),
      ...bare("New", "plus", found.added), ...bare("Resolved", "minus", found.removed), ...found.notes.map(faint)];
  });
  const ruled = panel("try-rule", "Try a rule on these rows",
    ...(kept.length > 1 ? [choice("table", "table", [["", "the one it names"], ...kept.map((text) => [text, text])])] : []), field("rule", "rule", "input", { long: true, hint: "zip -> city" }));
  answering(ruled, async ({ rule, table: of }) => {
    const found = await ask("/try/rule", {}, of ? { rule, table: of } : { rule });
    const out = make("div");
    if (found.measured) return [make("p", { class: found.open ? "bad" : "good", text: found.measured })];
    listed(found.violations, out, found.table);
    return [faint(`${plural(found.open, "violation")}, ${plural(found.rows, "row")} of the ${many.format(found.of)} of ${found.table}`), out,
      ...(found.truncated ? [faint("more are counted and not listed here")] : [])];
  });

  document.getElementById("rules").after(make("section", { id: "ask", "aria-label": "Ask" },
    find.node, one.node, two.node, tried.node, ruled.node));
})();
