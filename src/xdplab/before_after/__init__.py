"""One kernel, or one before a patch and one behind it: suites planned for guests, and compared."""
