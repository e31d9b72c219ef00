"""The model as the live pipeline sees it: the backends that step it, and the choice between them."""
