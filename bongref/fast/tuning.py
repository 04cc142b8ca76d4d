"""All thresholds of the compiled path, each with its unit and how it was measured.

None of them changes what is computed beyond rounding. Times are of one core of a 2.6 GHz EPYC (AVX-512) with numba 0.68.
"""

TIME_SLICE = (
    0.1  # seconds after which a compiled loop returns, for Ctrl-C and progress: ten times a second
)
FIRST_STEPS = 1  # steps of the first time slice, before the time of a step is known
COMPILE_MESSAGE = 1.0  # seconds of compilation after which a message is printed
PARTS = 8  # parts of the samples of mc-ef in the diagonal families, the most threads that can share them; their sums are added in order
CHUNK = 2**21  # numbers of Jacobians that a thread keeps at once in predictions: 16 MB
EVALUATION = (
    5 * 10**6
)  # inputs × samples × parameters from which a prediction is compiled: 0.1 s of the reference on the CNN
SHARED_NUMBERS = (
    10**6
)  # samples × parameters from which threads share them: an iteration of 4 ms or more, 0.2 ms of it for the threads
FEW_ROWS = 3  # rows of a CNN's Jacobian from which they share the products of pooled pixels: 3 rows are as fast either way
