"""The templates of the reports and the filters that they use (needs jinja2, from the extra ``plots``)."""

from importlib.resources import files

import jinja2

from streamgp.app import wording


def render(template: str, **content: object) -> bytes:
    """Render a page from its template."""
    page = jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda name: (files("streamgp.app") / "templates" / name).read_text("utf-8")),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    page.filters.update(
        num=wording.number,
        share=wording.share,
        clock=wording.clock,
        plural=wording.plural,
        count="{:,}".format,
    )
    return page.get_template(template).render(**content).encode()
