"""Networks of full size, each a project that a command writes: sources, real data and a plan.

Nothing is downloaded but the wheels of wheels.txt, whose model files are used as they are.
"""
