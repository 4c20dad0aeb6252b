"""How Sphinx makes the site of these pages: `make docs`. Nothing here, and nothing on a page, needs a network."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # the package `site_parts`

from dualfl.version import __version__

project = "dualfl"
author = copyright = "The dualfl authors"
version = release = __version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_nb",
    "sphinx_click",
    "sphinx_copybutton",
    "site_parts.mathml",
    "site_parts.outside_links",
    "site_parts.plain_docstrings",
    "site_parts.plain_options",
    "site_parts.public_names",
]
exclude_patterns = ["images/*.py", "site_parts"]
smartquotes = False  # they would spoil options such as --tol
nitpicky = False  # types of docstrings are words for people

# Markdown. Pages are also read on a forge, so they keep to what it understands, but for `{...}` blocks.
myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 4
myst_links_external_new_tab = False

# Tutorials run whenever the site is built, so nothing on a page is older than the code.
nb_execution_mode = "force"
nb_execution_timeout = 120
nb_execution_raise_on_error = True
nb_merge_streams = True
# Their kernels warn that they listen on TCP without encryption. They do so on this machine, while the site is built.
settings = Path(tempfile.mkdtemp(), "profile_default", "ipython_kernel_config.py")
settings.parent.mkdir()
settings.write_text("c.IPKernelApp.log_level = 40\n", encoding="utf-8")
os.environ["IPYTHONDIR"] = str(settings.parents[1])

# Reference.
autosummary_generate = False  # site_parts.public_names writes the pages
autodoc_typehints = "none"  # the signature would be longer than the screen; Parameters says it
autodoc_preserve_defaults = True
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

html_theme = "pydata_sphinx_theme"
html_title = "dualfl"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_show_sourcelink = False
html_domain_indices = False  # the reference lists the modules
html_theme_options = {
    "logo": {"text": "dualfl"},
    "navbar_align": "left",
    "navbar_persistent": ["search-button"],
    "header_links_before_dropdown": 6,
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
    "collapse_navigation": True,
}
html_sidebars = {"index": []}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

# `make docs` lists external links, and does not follow them.
linkcheck_anchors = False
