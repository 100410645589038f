"""Built-in jobs. The registry receives them made with the parts."""
