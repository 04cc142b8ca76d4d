"""A coverage-guided fuzzer for everything that bongref reads: files, answers of adapters, requests.

targets.py     what is read: one function of bytes for each kind, with its seeds
seeds.py       the inputs to begin with
answers.py     bytes as objects that an adapter could return
worker.py      one target under atheris, in a process of its own
__main__.py    the command: ``python -m validation.fuzz --seconds 600``
"""
