"""Lower bounds on epsilon from sampled outputs: worlds (neighbouring inputs) and estimators."""
