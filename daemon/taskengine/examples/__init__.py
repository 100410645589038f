"""Example jobs, which `taskengine dev` registers and shows; nothing else uses them."""
