"""The thresholds of the compiled path, each with its unit and how it was measured or derived.

None of them changes what is computed beyond rounding. Times are of one core of a 2.6 GHz EPYC
(AVX-512) with numba 0.68.
"""

EPS = 2.0**-52

# seconds after which a compiled loop returns, for Ctrl-C and progress
TIME_SLICE = 0.1
# multiply-adds a second, of few rows and of many (BLAS), with which the first slice is planned:
# a tenth of what one core does, so that the slice is not longer than the others on a slow machine
FIRST_RATES = 5e9, 2e10
# multiply-adds for each parameter and row of a network: a CNN, whose weights are shared, has 40
NETWORK = 100
# a time slice is at most so many times as long as the one before
GROWTH = 16.0
# seconds: of compilation, after which a message is printed; of waiting for that of another process
COMPILE_MESSAGE, LOCK_WAIT = 1.0, 30.0
# parts of the samples of mc-ef in the diagonal families, which threads share; added in order
PARTS = 8
# numbers of Jacobians that a thread keeps at once in predictions: 16 MB
CHUNK = 2**21
# inputs × samples × parameters from which a prediction is compiled: 0.1 s of the reference, CNN
EVALUATION = 5 * 10**6
# samples × parameters from which threads share them: an iteration takes 4 ms, 0.2 for the threads
SHARED_NUMBERS = 10**6

# full covariances: rows of V that are deferred; 48 are read in 1/9 of the time of A at P = 881.
DEFERRED = 48
UNREAD = 128  # the same for bog in moments, which takes no product with Σ: 0.9 MB at P = 881
EMPTY = 256  # while A is zero, and at most P/3: a product with V reads less than one with A
BASIS = 64  # vectors of a basis of bbb at most
PARALLEL = 32 * EPS  # of g, relative to its largest entry, to be a multiple of a single row
SHARP = EPS**-0.5  # of 1 + xᵀΣx (DLR: xᵀΥ̃⁻¹x) of a new row x, beyond which half the digits go
LOSS = 64.0  # rounding that a low-rank change may cost bog and bbb, in units of the largest entry
NEGLIGIBLE = EPS / 256  # a relative change of a covariance that is none
RENEWED = 64  # updates after which an inverse is recomputed: each adds rounding once
BLOCK = 2**15  # DLR: numbers of a block, two of them in 512 KB
SAMPLES = 8  # samples that are placed together, one product
LARGE, SMALL = 1e140, 1e-140  # of the rows of W̃: squares and sums stay in float64's range
DLR_SHARP = 1e11  # of W̃ᵀΥ̃⁻¹W̃, beyond which less than five digits are left by Woodbury
FINE = 2.0**-26  # DLR: of eigenvalues of a Gram matrix, relative to its largest: half their digits
ROUNDS = 3  # corrections of V at most; rotations of first order converge quadratically
RUNAWAY = 1e12  # of WᵀΥ⁻¹W, beyond which rounding decides whether the next Υ is positive
