"""TE kernels that `lower` rules use; imported when something is compiled."""
