// Package label has conditions on the labels of cells, as spec files write them: "disk = ssd", "rack in (a, b)",
// "kernel version >= 5.10", and selectors of services, tasks, jobs and schedules by their own labels:
// "app=web,!canary". A condition is a value; another text is an error that names the mistake. Called by the definitions
// of work (lrp, task, batch), which keep the text, and by placement, which applies the conditions to the cells.
package label
