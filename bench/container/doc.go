// Command container measures what a container costs, against a bare loop of
// os/exec in the same run: launches of /bin/true at each level of isolation, with
// and without limits; what an idle container holds, of the cell and of its shim;
// and what a launch costs beside many that are running. The forms take turns in
// each round, and medians are printed with the load average. It is called by
// scripts/bench and nothing else.
package main
