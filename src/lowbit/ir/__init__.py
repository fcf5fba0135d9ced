"""The graph and what every stage may do with it: build, print, verify, rewrite, bind, run."""
