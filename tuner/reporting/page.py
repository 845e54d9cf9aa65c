"""HTML pages of one file that work offline: text and tables by Jinja, figures by plotly.js.

What comes from an experiment is escaped by Jinja, or as JSON that no script runs; the page asks the
network for nothing, and its Content-Security-Policy would not let it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import plotly.graph_objects as go
import plotly.io
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from tuner.record.folder import write_whole
from tuner.reporting.report import utc
from tuner.wording import printable


def render(template: str, **context: Any) -> str:
    """The page of a template, plotly.js within it."""
    environment = Environment(
        loader=PackageLoader("tuner.reporting", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"figure_json": figure_json, "printable": printable, "utc": utc}
    plotly_js = Markup(get_plotlyjs())  # Plotly's own code: it holds no </script>
    return environment.get_template(template).render(plotly_js=plotly_js, **context)


def figure_json(plot: go.Figure) -> Markup:
    """A figure as JSON that can stand in a page: no text in it can end the element it is in."""
    return Markup((plotly.io.to_json(plot, validate=False) or "null").replace("<", "\\u003c"))


def write_page(path: Path, page: str) -> None:
    """Write a page in the place of `path`, whole or not at all; raises UsageError."""
    write_whole(path, lambda partial: partial.write_text(page, encoding="utf-8"))
