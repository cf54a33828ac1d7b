"""What theorems say of other scopes: conversions, sampling, shuffling."""
