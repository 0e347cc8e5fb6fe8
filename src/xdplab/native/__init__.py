"""Native functions: C that is compiled when the package is built, loaded into this process."""
