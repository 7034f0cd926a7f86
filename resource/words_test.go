package resource

import "testing"

func TestAmountsInTheWordsOfASpec(t *testing.T) {
	for want, got := range map[string]string{
		"memory 361Mi": Words(MemoryMB, 361), "memory 900Gi": Words(MemoryMB, 921600), "memory 0": Words(MemoryMB, 0),
		"disk 1Gi": Words(DiskMB, 1024),
		"cpu 500m": Words(CPUMilli, 500), "cpu 2": Words(CPUMilli, 2000), "cpu 0": Words(CPUMilli, 0),
		"containers 9": Words(Containers, 9), "gpu 1": Words("gpu", 1),
		"memory -5Mi": Words(MemoryMB, -5), "cpu 1500m": Words(CPUMilli, 1500),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
