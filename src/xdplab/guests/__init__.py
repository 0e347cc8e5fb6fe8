"""Other kernels, booted in a virtual machine, that run the same programs (docs/guests.md)."""
