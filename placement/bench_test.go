package placement

import (
	"fmt"
	"math"
	"slices"
	"syscall"
	"testing"
	"time"

	"cantina/resource"
)

func fleet(cells, zones, memory int) *Auction {
	a := NewAuction(Config{Batch: 1 << 30})
	for i := range cells {
		s := plainState(fmt.Sprintf("cell-%05d", i), 1, memory, 250)
		s.Zone = fmt.Sprint("z", i%zones)
		s.Capacity[resource.DiskMB] = 4 * memory
		join(a, s)
	}
	return a
}

// population returns instances of apps in sizes of 64 to 1024 MB.
func population(apps, each int) []Item {
	items := make([]Item, 0, apps*each)
	for app := range apps {
		for i := range each {
			it := lrpItem(fmt.Sprint("app", app), i, 64<<(app%5))
			it.Need[resource.DiskMB] = 128
			items = append(items, it)
		}
	}
	return items
}

// processor returns the processor time of this process, of all threads.
func processor() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// quality prints how well the placement is spread.
func quality(b *testing.B, a *Auction) {
	var shares []float64
	for _, c := range a.byName {
		if c.class < 0 {
			continue
		}
		shares = append(shares, float64(c.used.at(dimMemory))/float64(c.capacity.at(dimMemory)))
	}
	slices.Sort(shares)
	mean, dev := 0.0, 0.0
	for _, x := range shares {
		mean += x / float64(len(shares))
	}
	for _, x := range shares {
		dev += (x - mean) * (x - mean) / float64(len(shares))
	}
	colocated, worstZone := 0, 0
	for _, g := range a.groups {
		for _, n := range g.cells {
			colocated += n - 1
		}
		zones := slices.DeleteFunc(slices.Clone(g.domains[0]), func(n int) bool { return n == 0 })
		worstZone = max(worstZone, slices.Max(zones)-slices.Min(zones))
	}
	b.ReportMetric(100*mean, "mem%mean")
	b.ReportMetric(100*math.Sqrt(dev), "mem%stddev")
	b.ReportMetric(100*(shares[len(shares)-1]-shares[0]), "mem%spread")
	b.ReportMetric(float64(colocated), "colocated")
	b.ReportMetric(float64(worstZone), "zone-skew")
}

func benchmarkPlace(b *testing.B, cells, zones, apps, each int) {
	items := population(apps, each)
	memory := 2 * apps * each * 397 / cells
	var a *Auction
	var used time.Duration
	for b.Loop() {
		b.StopTimer()
		a = fleet(cells, zones, memory)
		b.StartTimer()
		used -= processor()
		if err := a.Submit(0, items...); err != nil {
			b.Fatal(err)
		}
		if r := a.Round(0); len(r.Placed) != len(items) {
			b.Fatalf("%d of %d placed: %v", len(r.Placed), len(items), r.Refused[0].Refusal)
		}
		used += processor()
	}
	b.ReportMetric(used.Seconds()/float64(b.N), "cpu-s/op")
	quality(b, a)
}

func BenchmarkPlace10000On1000(b *testing.B)   { benchmarkPlace(b, 1000, 2, 400, 25) }
func BenchmarkPlaceOneApp10000(b *testing.B)   { benchmarkPlace(b, 1000, 2, 1, 10_000) }
func BenchmarkPlace20000On400(b *testing.B)    { benchmarkPlace(b, 400, 2, 800, 25) }
func BenchmarkPlace250000On10000(b *testing.B) { benchmarkPlace(b, 10_000, 3, 10_000, 25) }

// mixed is a fleet of 20 classes: zones, racks and disks; two cells in five offer a tag.
func mixed(cells int) *Auction {
	a := NewAuction(Config{Batch: 1 << 30})
	for i := range cells {
		s := plainState(fmt.Sprintf("cell-%05d", i), 1, 2*25*397, 250)
		s.Zone = fmt.Sprint("z", i%2)
		s.Labels = map[string]string{"rack": fmt.Sprint("r", i/2%2)}
		s.Capacity[resource.DiskMB] = 4 * s.Capacity[resource.MemoryMB]
		if kind := i / 4 % 5; kind < 2 {
			s.OptionalTags = []string{"gpu", fmt.Sprint("model", kind)}
		} else {
			s.Labels["disk"] = fmt.Sprint("d", kind)
		}
		join(a, s)
	}
	return a
}

// mixedPopulation is work of which three in ten ask for the tag, and one in ten for a condition on the rack.
func mixedPopulation(apps, each int) []Item {
	items := population(apps, each)
	for i := range items {
		switch c := &items[i].Constraint; i / each % 10 {
		case 0, 3, 6:
			c.Tags = []string{"gpu"}
		case 9:
			c.Conditions, c.Spread = conditions("rack != r9"), []string{"rack"}
		}
	}
	return items
}

func BenchmarkPlace250000In20Classes(b *testing.B) {
	items := mixedPopulation(10_000, 25)
	var a *Auction
	var used time.Duration
	for b.Loop() {
		b.StopTimer()
		a = mixed(10_000)
		b.StartTimer()
		used -= processor()
		if err := a.Submit(0, items...); err != nil {
			b.Fatal(err)
		}
		if r := a.Round(0); len(r.Placed) != len(items) || len(a.classes) != 20 {
			b.Fatalf("%d of %d placed in %d classes", len(r.Placed), len(items), len(a.classes))
		}
		used += processor()
	}
	b.ReportMetric(used.Seconds()/float64(b.N), "cpu-s/op")
	quality(b, a)
}

// BenchmarkPlaceLostZone is the loss of one of three zones with 250,000 instances: all of its instances are placed
// again.
func BenchmarkPlaceLostZone(b *testing.B) {
	items := population(10_000, 25)
	var a *Auction
	var used time.Duration
	for b.Loop() {
		b.StopTimer()
		a = fleet(10_000, 3, 25*397*2)
		if err := a.Submit(0, items...); err != nil {
			b.Fatal(err)
		}
		var gone []string
		var again []Item
		for _, p := range a.Round(0).Placed {
			if a.byName[p.Cell].state.Zone == "z0" {
				gone = append(gone, p.Item.Hold)
				again = append(again, *p.Item)
			}
		}
		b.StartTimer()
		used -= processor()
		for i := 0; i < 10_000; i += 3 {
			a.Remove(fmt.Sprintf("cell-%05d", i))
		}
		a.Release(gone...)
		if err := a.Submit(0, again...); err != nil {
			b.Fatal(err)
		}
		if r := a.Round(0); len(r.Placed) != len(again) {
			b.Fatalf("%d of %d placed", len(r.Placed), len(again))
		}
		used += processor()
	}
	b.ReportMetric(used.Seconds()/float64(b.N), "cpu-s/op")
	quality(b, a)
}

// BenchmarkExhaustive places 2,000 instances on 200 cells of 20 classes by the index, and by the scores of all
// cells, as the tests do; both have the same quality.
func BenchmarkExhaustive(b *testing.B) {
	items := mixedPopulation(80, 25)
	b.Run("index", func(b *testing.B) {
		var a *Auction
		for b.Loop() {
			a = mixed(200)
			for _, it := range items {
				if _, r, err := a.Place(it, 0); r != nil || err != nil {
					b.Fatal(r, err)
				}
			}
		}
		quality(b, a)
	})
	b.Run("all", func(b *testing.B) {
		var a *Auction
		for b.Loop() {
			a = mixed(200)
			for _, it := range items {
				all := oracle(a.Ledger, it)
				want, _ := best(all)
				for _, c := range a.Cells() {
					if v, ok := all[c.Name]; ok && v == want {
						a.take(&it, a.shapeOf(&it), a.byName[c.Name], 0)
						break
					}
				}
			}
		}
		quality(b, a)
	})
}

func BenchmarkPlaceOneIntoFull(b *testing.B) {
	a := fleet(10_000, 3, 25*397*5/4)
	if err := a.Submit(0, population(10_000, 25)...); err != nil {
		b.Fatal(err)
	}
	a.Round(0)
	var times []time.Duration
	n := 0
	for b.Loop() {
		n++
		it := lrpItem(fmt.Sprint("app", n%10_000), 25+n, 64<<(n%5))
		start := time.Now()
		p, r, err := a.Place(it, 0)
		times = append(times, time.Since(start))
		if err != nil || r != nil {
			b.Fatal(err, r)
		}
		a.Release(p.Item.Hold)
	}
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)*99/100])/1e3, "p99-µs")
	b.ReportMetric(float64(times[len(times)-1])/1e3, "max-µs")
}

// BenchmarkReserveAndRelease is the refill of freed slots in bulk.
func BenchmarkReserveAndRelease(b *testing.B) {
	a := fleet(1000, 3, 64_000)
	wants := make([]Want, 1000)
	ids := make([]string, len(wants))
	for i := range wants {
		ids[i] = fmt.Sprint("job/node", i)
		wants[i] = Want{Hold: ids[i], Need: resource.Amounts{resource.CPUMilli: 0, resource.MemoryMB: 64}}
	}
	for b.Loop() {
		for _, g := range a.Reserve(wants, 0) {
			if g.Refusal != nil {
				b.Fatal(g.Refusal)
			}
		}
		a.Release(ids...)
	}
	b.ReportMetric(float64(len(wants)*b.N)/b.Elapsed().Seconds(), "grants/s")
}

// BenchmarkWaiting is one round with 100,000 waiting items of 100 shapes when one
// cell frees room for one.
func BenchmarkWaiting(b *testing.B) {
	a := fleet(1000, 3, 1000)
	var items []Item
	for i := range 1000 {
		items = append(items, taskItem(fmt.Sprint("fill", i), 1000))
	}
	for i := range 100_000 {
		items = append(items, taskItem(fmt.Sprint("w", i), 901+i%100))
	}
	if err := a.Submit(0, items...); err != nil {
		b.Fatal(err)
	}
	r := a.Round(0)
	last := r.Placed[0].Item.Hold
	for b.Loop() {
		a.Release(last)
		r := a.Round(0)
		if len(r.Placed) != 1 {
			b.Fatalf("%d placed", len(r.Placed))
		}
		last = r.Placed[0].Item.Hold
	}
}

// BenchmarkExplain is the refusal of one shape over 10,000 cells.
func BenchmarkExplain(b *testing.B) {
	a := fleet(10_000, 3, 1000)
	it := taskItem("huge", 5000)
	for b.Loop() {
		if a.Explain(it) == nil {
			b.Fatal("it fits")
		}
	}
}
