"""Engine process's end of the links: requests of front ends become work for the batchers, outcomes become records."""
