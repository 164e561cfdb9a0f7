"""Lowers the dialect to kernels: legalization, fusion, deduplication, loops as kernels."""
