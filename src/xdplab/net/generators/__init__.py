"""Ways to make traffic on an interface, behind one interface (base.Generator)."""
