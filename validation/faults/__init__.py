"""Writes that fail, kills, Ctrl-C and clock jumps at chosen changes of a folder.

failing.c      a library for LD_PRELOAD: the n-th change of a folder fails as asked
jobs.py        what is disturbed: saving, a checkpointed stream, bongref run, tune and report
__main__.py    the command: ``python -m validation.faults``
"""
