"""A figure as plain values, made into a Plotly figure once.

Adding piece by piece to a Plotly figure checks everything again each time, which takes ten times as long.

It has the few methods of a Plotly figure that the charts use, with the same arguments.
"""

from typing import Any, Final, Self

import plotly.graph_objects as go

_REAL_NAMES: Final = frozenset({"error_x", "error_y", "paper_bgcolor", "plot_bgcolor"})
"""Attributes of Plotly with an underscore of their own; elsewhere `a_b` is `b` inside `a`."""


class Drawing:
    """Traces, shapes, annotations and layout, in the order they were added."""

    def __init__(self) -> None:
        self._data: list[dict[str, Any]] = []
        self._shapes: list[dict[str, Any]] = []
        self._annotations: list[dict[str, Any]] = []
        self._layout: dict[str, Any] = {"template": None, "xaxis": {}, "yaxis": {}}

    def add_bar(self, **trace: Any) -> Self:
        """A bar trace."""
        return self._trace("bar", trace)

    def add_scatter(self, **trace: Any) -> Self:
        """A scatter trace."""
        return self._trace("scatter", trace)

    def add_shape(self, **shape: Any) -> Self:
        """A shape of the layout."""
        self._shapes.append(_nested(shape))
        return self

    def add_annotation(self, **annotation: Any) -> Self:
        """A text of the layout."""
        self._annotations.append(_nested(annotation))
        return self

    def add_hline(self, *, y: float, **shape: Any) -> Self:
        """A line over the whole width."""
        return self.add_shape(type="line", xref="x domain", x0=0, x1=1, y0=y, y1=y, **shape)

    def update_layout(self, **layout: Any) -> Self:
        """Set parts of the layout."""
        _merge(self._layout, _nested(layout))
        return self

    def update_xaxes(self, **axis: Any) -> Self:
        """Set parts of the x axis."""
        _merge(self._layout["xaxis"], _nested(axis))
        return self

    def update_yaxes(self, **axis: Any) -> Self:
        """Set parts of the y axis."""
        _merge(self._layout["yaxis"], _nested(axis))
        return self

    def spec(self) -> dict[str, Any]:
        """Data and layout as Plotly's JavaScript takes them."""
        layout = self._layout | {"shapes": self._shapes, "annotations": self._annotations}
        return {"data": self._data, "layout": layout}

    def figure(self) -> Any:
        """The Plotly figure. Tests check the values; here they are taken as they are."""
        return go.Figure(self.spec(), _validate=False)

    def _trace(self, kind: str, trace: dict[str, Any]) -> Self:
        self._data.append({"type": kind} | _nested(trace))
        return self


def _nested(values: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in values.items():
        if value is None:
            continue
        outer, _, inner = name.partition("_")
        if inner and name not in _REAL_NAMES:
            found.setdefault(outer, {})[inner] = value
        else:
            found[name] = value
    return found


def _merge(into: dict[str, Any], values: dict[str, Any]) -> None:
    for name, value in values.items():
        if isinstance(value, dict) and isinstance(into.get(name), dict):
            _merge(into[name], value)
        else:
            into[name] = value
