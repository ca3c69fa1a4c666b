"""The demo: real digits, and a network trained on the spot. Runs in a process of its own, like a worker."""
