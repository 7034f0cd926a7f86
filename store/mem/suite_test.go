package mem_test

import (
	"testing"

	"go.uber.org/goleak"

	"cantina/internal/run"
	"cantina/store"
	"cantina/store/mem"
	"cantina/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSuite(t *testing.T) {
	storetest.Run(t, func(testing.TB) storetest.Fixture {
		b := mem.New(mem.Config{})
		return storetest.Fixture{Open: func(testing.TB) store.Backend { return b }, Clock: run.Kernel()}
	})
}
