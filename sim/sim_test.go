package sim

import (
	"os"
	"strconv"
	"testing"
)

func TestQuick(t *testing.T) {
	if os.Getenv("SIM_TRACE") != "" {
		_, err := Run(Config{Seed: 1, Trace: os.Stderr})
		t.Log(err)
		return
	}
	steps, launches := 0, 0
	for seed := range uint64(seeds()) {
		r, err := Run(Config{Seed: seed})
		steps += r.Steps
		launches += r.Launches
		if err != nil {
			t.Error(err)
		}
	}
	t.Log(steps, launches)
}

func seeds() int {
	n, _ := strconv.Atoi(os.Getenv("SIM_SEEDS"))
	return max(n, 100)
}
