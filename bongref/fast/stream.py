"""The compiled stream as a backend."""

from ..backends import Advanced
from .streams import Stream as Old


class Stream:
    def __init__(self, m, model, lik, data, dynamics, rng, samples):
        ys = data.ys if data.seen.all() else [y if s else None for y, s in zip(data.ys, data.seen, strict=True)]
        self.rng, self.stream = rng, Old(m, model, lik, data.xs, ys, dynamics, rng, samples)

    def advance(self, state, t, stop):
        found = False
        while t < stop:
            generator = None if self.rng is None else self.rng.bit_generator.state
            new, done, refused = self.stream.advance(state, t, stop)
            if not refused:
                state, t = new, t + done
                if not found:
                    break
            else:
                found = True
                if self.rng is not None:
                    self.rng.bit_generator.state = generator
                stop = t + (done or min(self.stream.pace, stop - t) // 2)
        return Advanced(state, t, found)
