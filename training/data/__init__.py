"""Motion to train on: which takes there are, what is seen and taught of them, and ways to vary them."""
