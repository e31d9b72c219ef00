"""The model family; import what you need from the submodules or lazily from here."""
