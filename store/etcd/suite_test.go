package etcd_test

import (
	"testing"

	"cantina/internal/run"
	"cantina/store"
	"cantina/store/etcdtest"
	"cantina/store/storetest"
)

func TestSuiteEmbedded(t *testing.T) {
	storetest.Run(t, func(t testing.TB) storetest.Fixture {
		m, f := startMember(t, t.TempDir())
		t.Cleanup(func() { stopMember(t, m, f) })
		return storetest.Fixture{Open: func(testing.TB) store.Backend { return m.Backend() }, Clock: run.Kernel()}
	})
}

func TestSuitePlain(t *testing.T) {
	storetest.Run(t, func(t testing.TB) storetest.Fixture {
		s := etcdtest.Start(t)
		return storetest.Fixture{Open: func(t testing.TB) store.Backend { return s.Dial(t) }, Clock: run.Kernel()}
	})
}
