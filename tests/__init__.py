"""A package, so that a library which installs one of this name into site-packages does not get in the way."""
