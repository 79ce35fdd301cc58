"""What a page must look like at any size and in any light, measured in the browser."""

from __future__ import annotations

from typing import Any

# the least contrast of the texts that are seen, by the formula of WCAG 2
CONTRAST = """() => {
  const parse = (text) => text.match(/[\\d.]+/g).map(Number);
  const linear = (c) => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => [r, g, b].map((c) => linear(c / 255))
    .reduce((all, c, at) => all + c * [0.2126, 0.7152, 0.0722][at], 0);
  const behind = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const color = parse(getComputedStyle(at).backgroundColor);
      if (color.length < 4 || color[3] > 0) return color;
    }
    return [255, 255, 255];
  };
  let least = [99, ""];
  for (const node of document.querySelectorAll("h1, h2, p, td, th, a, span, button, summary, label, input, select")) {
    const own = [...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim());
    if (!own || !node.getClientRects().length) continue;
    const [a, b] = [light(parse(getComputedStyle(node).color)), light(behind(node))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < least[0]) least = [ratio, `${node.tagName} ${node.className} ${node.textContent.slice(0, 40)}`];
  }
  return least;
}"""


def check_looks(page: Any) -> None:
    """Nothing sticks out of the page, all text can be read, and words in charts are as large as others."""
    sticks_out = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert sticks_out <= 0, f"{sticks_out} pixels wider than the screen"
    ratio, where = page.evaluate(CONTRAST)
    assert ratio >= 4.5, f"a contrast of {ratio:.2f}: {where}"
    sizes = page.evaluate(
        "[...document.querySelectorAll('svg text')].map((node) => node.getBoundingClientRect().height)"
    )
    assert sizes and min(sizes) >= 11, sizes
