package placement

import "strconv"

// maxFit bounds how many instances Fit tries.
const maxFit = 2000

// Fit returns the cells on which n instances like it would find room now, and why the next would not. Work that has its
// place keeps it. Nothing is allocated afterwards. Of more than 2,000 only so many are tried, and cells has them.
func (a *Auction) Fit(it Item, n int) (cells []string, why *Refusal) {
	a.note(it.Constraint.Apart)
	var taken []*holding
	defer func() {
		for _, h := range taken {
			a.deallocate(h)
		}
	}()
	s := a.shapeOf(&it)
	for i := range min(n, maxFit) {
		c := a.find(s, a.groups[it.Group])
		if c == nil {
			return cells, a.explain(s)
		}
		one := it
		one.Hold = "\x00fit/" + strconv.Itoa(i)
		one.ID = one.Hold
		taken = append(taken, a.take(&one, s, c, 0))
		cells = append(cells, c.name)
	}
	return cells, nil
}
