"""Running a graph natively: sessions, and the plans of kernel calls that they execute."""
