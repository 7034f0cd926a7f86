package placement

// unit is the score of one fully used dimension of weight 1.
const unit = 1 << 20

// weights are the weights of each scored dimension, per kind of work.
//
// An LRP weighs memory, disk and containers alike, a task memory and disk, with the containers
// only to break ties (Diego dev notes, "Distributing ActualLRPs" and "Distributing Tasks"). Batch
// work adds the processors.
var weights = [...][scored]int64{
	KindLRP:   {dimMemory: 1, dimDisk: 1, dimContainers: 1},
	KindTask:  {dimMemory: 1024, dimDisk: 1024, dimContainers: 1},
	KindBatch: {dimMemory: 1, dimDisk: 1, dimContainers: 1, dimCPU: 1},
}

// share is used/total in units; a cell that does not offer the resource counts as
// unused. It is bounded, so that nonsense from a cell cannot overflow a score.
func share(used, total int64) int64 {
	if total <= 0 || used <= 0 {
		return 0
	}
	return min(min(used, 1<<40)*unit/total, 8*unit)
}

// usage is the present score of a cell, for one kind of work: low is good.
func usage(k Kind, used, capacity vector) int64 {
	var sum int64
	for d, w := range weights[k] {
		if w != 0 {
			sum += w * share(used.at(d), capacity.at(d))
		}
	}
	return sum
}

// rise is the amount that a need adds to the usage of a cell. The sum usage+rise is the score of
// an item on a cell; it has the same rounding for all cells, so that an index can order cells
// before the item is known.
func rise(k Kind, need, capacity vector) int64 { return usage(k, need, capacity) }
