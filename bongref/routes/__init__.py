"""Independent routes to every number: by definition, in exact arithmetic, and their comparison.

``definition`` differentiates the objective with autograd, ``exact`` repeats a step in rationals or
50 digits, ``oracle`` answers from plain dicts, ``compare`` derives the tolerance, ``audit``
tabulates all of it. What is not here: the derived updates themselves (``families``).
"""
