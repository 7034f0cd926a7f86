package scheduler

import (
	"cantina/batch"
)

// stored is one status as it is in the store, with its data.
type stored struct {
	status batch.Status
	data   []byte
}
