"""The parts of the mil_interpreter runtime: reading an ML program, decoding its constants, running it."""
