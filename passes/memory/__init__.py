"""Where values live: donation of inputs, the memory plan, hoisted constants, bounds on allocations."""
