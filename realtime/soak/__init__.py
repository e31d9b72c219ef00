"""What `pyanticip soak` does: a show plays for hours while everything around it fails; docs/soak.md."""
