"""Lower bounds on epsilon from sampled outputs of neighbouring inputs (worlds), by estimators."""
