"""What can go wrong while a show plays: a module a matter, a function a fault."""
