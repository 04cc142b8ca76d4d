"""What a compiled step or stream says of its result; all but OK is left to the reference."""

OK = 0
NOT_POSITIVE_DEFINITE = 1  # the covariance or precision is not, or too close to it to be sure
NOT_FINITE = 2  # a gradient, a Hessian or a state has an infinity or NaN
UNSUPPORTED = 3  # this step has no compiled form, e.g. Υ <= 0 in the DLR family
