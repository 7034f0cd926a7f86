package sim

import (
	"os"
	"strconv"
	"testing"
)

func TestTrace(t *testing.T) {
	seed, err := strconv.ParseUint(os.Getenv("SIM_SEED"), 10, 64)
	if err != nil {
		t.Skip("set SIM_SEED")
	}
	_, err = Run(Config{Seed: seed, Trace: os.Stdout})
	t.Log(err)
}
