"""The templates of the reports and the filters that they use."""

import math
from importlib.resources import files

import jinja2

from streamgp.evaluation.metrics.shares import in_percent
from streamgp.numerics import formats
from streamgp.reports.palette import PALETTE
from streamgp.version import __version__

TEMPLATES = files("streamgp.reports") / "templates"


def render(template: str, **content: object) -> bytes:
    """Render a page from its template, which knows the version and the palette besides."""
    page = jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda name: (TEMPLATES / name).read_text("utf-8")),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    page.filters.update(
        num=formats.number,
        share=formats.share,
        in_percent=in_percent,
        signed_share=formats.signed_share,
        odds=lambda log: formats.share(math.exp(log)) if log > math.log(1e-3) else f"{math.exp(log):.1g}",
        clock=formats.clock,
        plural=formats.plural,
        count="{:,}".format,
    )
    return page.get_template(template).render(version=__version__, palette=PALETTE, **content).encode()
