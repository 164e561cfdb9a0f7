"""From the dialect to kernels: legalization, fusion, kernels shared and merged, loops as kernels."""
