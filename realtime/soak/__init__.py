"""`pyanticip soak`: a show plays for hours while faults are injected; docs/soak.md."""
