"""Settings for all tests."""

from hypothesis import settings

# Hypothesis fails an example that takes more than 200 ms: on a machine with two busy cores that is chance.
# Its own profile for CI (derandomised) is kept where CI is set, because the new profile starts from it.
settings.register_profile("no-deadline", settings(), deadline=None)
settings.load_profile("no-deadline")
