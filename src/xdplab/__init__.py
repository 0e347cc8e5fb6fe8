"""xdplab measures what every nanosecond of an XDP packet path costs.

Importing this package needs neither Linux nor any privilege.
"""

__version__ = "0.1.0"
