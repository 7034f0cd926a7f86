package batch

import (
	"strings"
	"testing"

	"cantina/resource"
)

// TestWhyPending: the level, the need and the present amount, the holders with the largest draw first, and the
// smallest change that starts it.
func TestWhyPending(t *testing.T) {
	spec := ForestSpec{Name: "f", Levels: []string{"host"}, Order: OrderOriginal, Limits: map[string]map[string]Limit{
		LevelInstance: {"readers": {Limit: 10}, "writers": {Limit: 0}},
	}}
	b := newBoard(t, spec, NodeSpec{Name: "a", Level: "host"})
	n := int64(0)
	takes := func(readers, writers int) map[string]resource.Amounts {
		return map[string]resource.Amounts{LevelInstance: {"readers": readers, "writers": writers}}
	}
	for name, readers := range map[string]int{"one": 1, "four": 4, "three": 3} {
		put(t, b, Job{Name: name, Resources: takes(readers, 0)})
	}
	start(t, b, b.Pick(9), &n)
	for _, c := range []struct {
		readers, writers int
		want             string
	}{
		{2, 0, ""},
		{3, 0, "instance instance: readers 3 needed, 2 free, held by four/a, three/a, one/a; " +
			"it starts when one of them ends; to start it now: raise the limit of readers on level instance to 11"},
		{10, 0, "instance instance: readers 10 needed, 2 free, held by four/a, three/a, one/a; " +
			"it starts when 3 of them have ended; to start it now: raise the limit of readers on level instance to 18"},
		{11, 0, "instance instance: readers 11 needed, 2 free, held by four/a, three/a, one/a; " +
			"raise the limit of readers on level instance to 11, or let the job take less"},
		{0, 1, "instance instance: writers 1 needed, 0 free; " +
			"raise the limit of writers on level instance to 1, or let the job take less"},
	} {
		put(t, b, Job{Name: "new", Resources: takes(c.readers, c.writers)})
		why, err := b.Explain(Key{"new", "a"}, "", 0)
		if err != nil || lines(why) != c.want {
			t.Errorf("%d readers, %d writers: %v\n got %s\nwant %s", c.readers, c.writers, err, lines(why), c.want)
		}
		if c.want != "" && (why[0].Level != LevelInstance || why[0].Short.Need != max(c.readers, c.writers)) {
			t.Errorf("%+v", why[0])
		}
	}
	if got := lines(mustExplain(t, b, "new")); strings.Contains(got, "held by") {
		t.Error("nobody holds writers: ", got)
	}
}

func mustExplain(t *testing.T, b *Board, job string) []Why {
	t.Helper()
	why, err := b.Explain(Key{job, "a"}, "", 0)
	if err != nil {
		t.Fatal(err)
	}
	return why
}
