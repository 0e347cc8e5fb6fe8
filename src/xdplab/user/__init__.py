"""The user-space engine: eBPF objects translated to native code and run in this process."""
