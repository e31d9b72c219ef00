"""Made-up sequences of seven kinds, and what trajectory positions bring on each of them."""
