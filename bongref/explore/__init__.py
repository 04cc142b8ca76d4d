"""The explorer: one page, one pure function, and the two ways in which the page reaches it.

``bongref explore`` serves the page and :func:`respond` on loopback; docs/explorer_build.py makes a
static folder in which the same page runs the library in WebAssembly. See docs/explorer.md.

What is here: the function, its validation, the exact posterior of two parameters, the equations of
a step with their numbers and lines of code, the server, and the page's files in page/.
What is not here: any update; every number comes from the rest of the package.

>>> from bongref.explore import respond
>>> answer = respond({"model": "logistic", "t": 1, "stream": {"seed": 0, "n": 3}})
>>> answer["methods"][0]["name"], answer["methods"][0]["status"]
('bong-lin-hess-fc', 'ok')
>>> respond({"model": "logit"})["error"]["argument"]
'model'
"""

from .answer import respond

__all__ = ["respond"]
