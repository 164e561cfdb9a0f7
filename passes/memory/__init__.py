"""Where values lie: donation of inputs, the memory plan, constants computed once, bounds on allocations."""
