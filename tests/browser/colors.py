"""Colours as a browser computes them: contrast of every text, and what figures are drawn with."""

from __future__ import annotations

import re
from itertools import chain

from ui.tokens import PARTS, SURFACE, channels

LEAST_CONTRAST = 4.5

TEXTS = """() => {
    const parse = text => {
        const parts = (text.match(/[\\d.]+/g) || []).map(Number);
        if (text.startsWith('color(srgb')) return [...parts.slice(0, 3).map(v => v * 255), parts[3] ?? 1];
        return parts.length < 3 ? null : [parts[0], parts[1], parts[2], parts[3] ?? 1];
    };
    const over = (top, under) => top.slice(0, 3).map((v, i) => v * top[3] + under[i] * (1 - top[3]));
    const behind = element => {
        const layers = [];
        for (let node = element; node; node = node.parentElement) {
            const color = parse(getComputedStyle(node).backgroundColor);
            if (color && color[3] > 0) layers.push(color);
            if (color && color[3] === 1) break;
        }
        return layers.reverse().reduce((under, top) => over(top, under), [255, 255, 255]);
    };
    const found = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
        const text = node.textContent.trim(), parent = node.parentElement;
        const leftOut = 'style,script,noscript,[data-testid="stIconMaterial"],[data-testid="stStatusWidget"],'
            + '[disabled],[aria-disabled="true"]';
        if (!text || !parent || parent.closest(leftOut)) continue;
        if (!parent.checkVisibility({opacityProperty: true, visibilityProperty: true})) continue;
        const box = parent.getBoundingClientRect();
        if (!box.width || !box.height) continue;
        const style = getComputedStyle(parent);
        const own = parse(parent.closest('svg') ? style.fill : style.color);
        if (!own) continue;
        let opacity = own[3];
        for (let up = parent; up; up = up.parentElement) opacity *= Number(getComputedStyle(up).opacity);
        const ground = behind(parent);
        found.push({text, color: over([...own.slice(0, 3), opacity], ground), behind: ground});
    }
    return found;
}"""
"""Every visible text with its colour and the colour behind it, as red, green and blue of 255."""

FIGURE_COLORS = """() => [...document.querySelectorAll('.js-plotly-plot [style]')].flatMap(element => {
    const style = getComputedStyle(element), inline = element.getAttribute('style');
    return ['fill', 'stroke'].filter(name => inline.includes(name + ':')).map(name => style[name]);
}).concat([...document.querySelectorAll('.step .plot *, table.fit td')].map(
    element => getComputedStyle(element).backgroundColor))"""
"""Every fill and stroke that figures set, and what panels and the fit map are filled with, as computed."""


def as_browser(token: str, *, dark: bool) -> str:
    """A token the way a browser writes a computed colour."""
    return f"rgb({channels(SURFACE[token][1 if dark else 0])})"


def only_light() -> set[str]:
    """Light values that are no dark value of any token."""
    pairs = list(chain(SURFACE.values(), PARTS.values()))
    dark = {pair[1] for pair in pairs}
    return {f"rgb({channels(pair[0])})" for pair in pairs if pair[0] not in dark}


def contrast(first: list[float], second: list[float]) -> float:
    """Contrast ratio of two colours, WCAG 2.2: (L1 + 0.05) / (L2 + 0.05)."""
    lighter, darker = sorted((_luminance(first), _luminance(second)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def rgb(text: str) -> list[float]:
    """`#1f6fae` or `rgba(31,111,174,.5)` as numbers."""
    if text.startswith("#"):
        return [float(value) for value in channels(text).split(", ")]
    return [float(value) for value in re.findall(r"[\d.]+", text)]


def _luminance(color: list[float]) -> float:
    parts = [value / 255 for value in color[:3]]
    red, green, blue = (v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
