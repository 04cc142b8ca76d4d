"""The thresholds of the compiled path that are times and sizes, each with its unit and how it was
measured; those of one form, which are about digits, stand at the head of its module.

None of them changes what is computed beyond rounding. Times are of one core of a 2.6 GHz EPYC
(AVX-512) with numba 0.68.
"""

# seconds after which a compiled loop returns, for Ctrl-C and progress
TIME_SLICE = 0.1
# multiply-adds a second, of few rows and of many (BLAS), with which the first slice is planned:
# a tenth of what one core does, so that the slice is not longer than the others on a slow machine
FIRST_RATES = 5e9, 2e10
# multiply-adds for each parameter and row of a network: a CNN, whose weights are shared, has 40
NETWORK = 100
# a time slice is at most so many times as long as the one before
GROWTH = 16.0
# seconds of compilation after which a message is printed
COMPILE_MESSAGE = 1.0
# parts of the samples of mc-ef in the diagonal families, which threads share; added in order
PARTS = 8
# numbers of Jacobians that a thread keeps at once in predictions: 16 MB
CHUNK = 2**21
# inputs × samples × parameters from which a prediction is compiled: 0.1 s of the reference, CNN
EVALUATION = 5 * 10**6
# samples × parameters from which threads share them: an iteration takes 4 ms, 0.2 for the threads
SHARED_NUMBERS = 10**6
