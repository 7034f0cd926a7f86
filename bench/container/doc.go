// Command container measures the cost of a container, compared with a bare loop of os/exec in the
// same run: launches of /bin/true at each level of isolation, with and without limits; the memory
// and descriptors of an idle container, in the cell and in its shim; and the cost of a launch
// beside many that are running. The forms alternate in each round, and medians are printed with
// the load average. Only scripts/bench calls it.
package main
