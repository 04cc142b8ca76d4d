"""The benchmark of the compiled streams: ``python -m validation.bench`` and ``python -m
validation.bench.sweep``; see README.md here.
"""
