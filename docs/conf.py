"""Sphinx's configuration of the site. ``python docs/build.py`` builds it and checks its links."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

from docutils import nodes

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from bongref import __version__  # noqa: E402

project = "bongref"
author = "The bongref developers"
copyright = "the bongref developers, MIT licence"
release = version = __version__

extensions = [
    "myst_nb",
    "sphinx_design",
    "sphinx_copybutton",
    "sphinx.ext.autodoc",
    "numpydoc",
]
exclude_patterns = ["_build", "**.ipynb_checkpoints"]
nitpicky = False
language = "en"

# --- Markdown and cells ---------------------------------------------------------------------------

myst_enable_extensions = ["colon_fence", "dollarmath", "deflist", "attrs_inline", "attrs_block"]
myst_heading_anchors = 4
myst_dmath_double_inline = True
nb_execution_mode = "force"  # a cell that was not run is a cell that may be wrong
nb_execution_raise_on_error = True
nb_execution_timeout = 120
nb_merge_streams = True
nb_output_stderr = "remove"  # messages about compilation depend on what is cached
nb_render_markdown_format = "myst"
suppress_warnings = ["mystnb.unknown_mime_type"]
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

# --- formulas: MathJax from the build folder, or as text ------------------------------------------

MATHJAX = os.environ.get("BONGREF_SITE_MATHJAX")  # a folder below _static, set by build.py
if MATHJAX:
    extensions.append("sphinx.ext.mathjax")
    html_math_renderer = "mathjax"
    mathjax_path = f"{MATHJAX}/tex-chtml-full.js"
    # the site has its own menus and search; MathJax's menu would load its parts on demand
    mathjax3_config = {
        "options": {"enableMenu": False},
        "chtml": {"displayAlign": "left", "displayIndent": "0"},
    }

# --- the pages ------------------------------------------------------------------------------------

html_theme = "pydata_sphinx_theme"
html_title = "bongref"
html_favicon = str(ROOT / "bongref" / "explore" / "page" / "icon.svg")
html_context = {"default_mode": "auto"}
html_static_path = [str(ROOT / "docs" / "_static")]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options: dict[str, Any] = {
    "logo": {"text": "bongref"},
    "header_links_before_dropdown": 8,
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
    "show_toc_level": 2,
    "use_edit_page_button": False,
    "back_to_top_button": True,
}
html_sidebars: dict[str, list[str]] = {"index": [], "explorer": []}  # no pages below them
if not MATHJAX:
    html_theme_options["announcement"] = (
        "npm was not there when this site was built: formulas are shown as LaTeX text."
    )

# --- the API --------------------------------------------------------------------------------------

autodoc_typehints = "none"  # the docstrings say shapes and types
autodoc_member_order = "bysource"
# scikit-learn adds set_*_request to every estimator, with references into its own documentation
autodoc_default_options = {
    "members": True,
    "exclude-members": "set_fit_request,set_partial_fit_request,set_score_request,"
    "set_predict_request,set_predict_proba_request",
}
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False


def _inline(translator: Any, node: nodes.math) -> None:
    translator.body.append(f'<code class="tex">{translator.encode(node.astext())}</code>')
    raise nodes.SkipNode


def _display(translator: Any, node: nodes.math_block) -> None:
    translator.body.append(f'<pre class="tex">{translator.encode(node.astext())}</pre>')
    raise nodes.SkipNode


def _bars(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """|x| in a docstring is an absolute value, not a reference to a substitution."""
    for k, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")):
            lines[k] = re.sub(r"(?<!\\)\|", r"\\|", line)


def _skipped(app: Any, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    """Fields of named tuples stand under Parameters already."""
    return True if type(obj).__name__ == "_tuplegetter" else None


def setup(app: Any) -> None:
    """Formulas as text, where there is no MathJax; bars in docstrings as they are."""
    app.connect("autodoc-process-docstring", _bars, priority=400)
    app.connect("autodoc-skip-member", _skipped)
    app.add_html_math_renderer("text", (_inline, None), (_display, None))
    if not MATHJAX:
        app.config.html_math_renderer = "text"
